// Between two products: bias, activation, gate, and the change of rows to operands and back.

#define NO_ACTIVATION 0
#define GELU_ERF 1
#define GELU_TANH 2
#define GELU_QUICK 3
#define RELU 4
#define RELU_SQUARED 5
#define SILU 6
#define TANH 7

#if OPERAND == OPERAND_BF16 || OPERAND == OPERAND_F16
// To within 2e-7: what is rounded to 16 bits at once does not notice.
__device__ __forceinline__ float logistic(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ __forceinline__ float tangent(float x) { return 1.0f - 2.0f * logistic(-2.0f * x); }
// Abramowitz and Stegun 7.1.26.
__device__ __forceinline__ float error_function(float x) {
    float t = __fdividef(1.0f, fmaf(0.3275911f, fabsf(x), 1.0f));
    float sum = fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t, 0.254829592f);
    return copysignf(1.0f - sum * t * __expf(-x * x), x);
}
#else
__device__ __forceinline__ float logistic(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float tangent(float x) { return tanhf(x); }
__device__ __forceinline__ float error_function(float x) { return erff(x); }
#endif

template <int ACTIVATION> __device__ __forceinline__ float activated(float x) {
    switch (ACTIVATION) {
        case GELU_ERF: return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f));
        case GELU_TANH: return 0.5f * x * (1.0f + tangent(0.79788456080286536f * (x + 0.044715f * x * x * x)));
        case GELU_QUICK: return x * logistic(1.702f * x);
        case RELU: return fmaxf(x, 0.0f);
        case RELU_SQUARED: x = fmaxf(x, 0.0f); return x * x;
        case SILU: return x * logistic(x);
        case TANH: return tangent(x);
        default: return x;
    }
}

template <int ACTIVATION> __device__ __forceinline__ float4 activated4(float4 x) {
    return make_float4(activated<ACTIVATION>(x.x), activated<ACTIVATION>(x.y), activated<ACTIVATION>(x.z), activated<ACTIVATION>(x.w));
}

// One branch for all four.
__device__ __forceinline__ float4 activated4(float4 x, u32 activation) {
    switch (activation) {
        case GELU_ERF: return activated4<GELU_ERF>(x);
        case GELU_TANH: return activated4<GELU_TANH>(x);
        case GELU_QUICK: return activated4<GELU_QUICK>(x);
        case RELU: return activated4<RELU>(x);
        case RELU_SQUARED: return activated4<RELU_SQUARED>(x);
        case SILU: return activated4<SILU>(x);
        case TANH: return activated4<TANH>(x);
        default: return x;
    }
}

// Four neighbours of a row; beyond its end, zeros.
__device__ __forceinline__ float4 load4(const float* row, u32 column, u32 width) {
    if (width % 4 == 0 && column < width) return *(const float4*)(row + column);
    return make_float4(column < width ? row[column] : 0.0f, column + 1 < width ? row[column + 1] : 0.0f,
                       column + 2 < width ? row[column + 2] : 0.0f, column + 3 < width ? row[column + 3] : 0.0f);
}

__device__ __forceinline__ float4 sum4(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__device__ __forceinline__ float4 product4(float4 a, float4 b) { return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }

// Into the floats, where there is room for them, and into the operand, where there is one.
__device__ __forceinline__ void store4(float* out, u16* operand, u32 row, u32 column, u32 width, u32 padded, float4 value) {
    if (out) {
        float* floats = out + (u64)row * width;
        if (width % 4 == 0 && column < width) {
            *(float4*)(floats + column) = value;
        } else {
            if (column < width) floats[column] = value.x;
            if (column + 1 < width) floats[column + 1] = value.y;
            if (column + 2 < width) floats[column + 2] = value.z;
            if (column + 3 < width) floats[column + 3] = value.w;
        }
    }
    if (operand) store_operand4(operand + (u64)row * OPERAND_PARTS * padded, padded, column, value);
}

// out = activation(x + bias), four columns a thread. `padded` is a multiple of 4.
extern "C" __global__ void activate(const float* x, const float* bias, float* out, u16* operand, u32 rows, u32 width, u32 padded,
                                    u32 activation) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 row = thread / (padded / 4), column = thread % (padded / 4) * 4;
    if (row >= rows) return;
    float4 value = load4(x + (u64)row * width, column, width);
    if (bias) value = sum4(value, load4(bias, column, width));
    store4(out, operand, row, column, width, padded, activated4(value, activation));
}

// The same for an operand of one part, in place, eight columns a thread: `width` is a multiple of 8.
extern "C" __global__ void activate_halves(u16* x, const float* bias, u32 rows, u32 width, u32 activation) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 row = thread / (width / 8), column = thread % (width / 8) * 8;
    if (row >= rows) return;
    uint4* at = (uint4*)(x + (u64)row * width + column);
    uint4 pairs = *at;
    float4 first = half_values4(make_uint2(pairs.x, pairs.y)), second = half_values4(make_uint2(pairs.z, pairs.w));
    if (bias) {
        first = sum4(first, *(const float4*)(bias + column));
        second = sum4(second, *(const float4*)(bias + column + 4));
    }
    uint2 low = half_pairs4(activated4(first, activation)), high = half_pairs4(activated4(second, activation));
    *at = make_uint4(low.x, low.y, high.x, high.y);
}

// out[r, j] = activation(x[r, j]) * x[r, width + j].
extern "C" __global__ void gate(const float* x, float* out, u16* operand, u32 rows, u32 width, u32 padded, u32 activation) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 row = thread / (padded / 4), column = thread % (padded / 4) * 4;
    if (row >= rows) return;
    const float* gates = x + (u64)row * 2 * width;
    float4 opened = activated4(load4(gates, column, width), activation);
    store4(out, operand, row, column, width, padded, product4(opened, load4(gates + width, column, width)));
}

// The same from an operand of one part to another: `width` is a multiple of 4.
extern "C" __global__ void gate_halves(const u16* x, u16* operand, u32 rows, u32 width, u32 padded, u32 activation) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 row = thread / (padded / 4), column = thread % (padded / 4) * 4;
    if (row >= rows) return;
    const u16* gates = x + (u64)row * 2 * width + column;
    float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (column < width)
        value = product4(activated4(half_values4(*(const uint2*)gates), activation), half_values4(*(const uint2*)(gates + width)));
    store_operand4(operand + (u64)row * padded, padded, column, value);
}

// An operand back to floats.
extern "C" __global__ void widen(const u16* operand, float* out, u32 rows, u32 width, u32 padded) {
    u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (thread >= (u64)rows * width) return;
    u32 row = thread / width, column = thread % width;
    out[thread] = operand_value(operand + (u64)row * OPERAND_PARTS * padded, padded, column);
}

// Floats to 16-bit numbers of the products.
extern "C" __global__ void narrow(const float* x, u16* out, u32 count) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < count) out[thread] = (u16)operand_pair(x[thread], 0.0f);
}

// A weight of any stored kind as the other factor of a product: floats, one 16-bit part, or the parts [high | high | low]; `parts` may
// be 2 where nothing is left for the last.
extern "C" __global__ void pack_weight(const void* stored, u32 kind, void* packed, u32 rows, u32 width, u32 padded, u32 parts) {
    u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (thread >= (u64)rows * padded) return;
    u32 row = thread / padded, column = thread % padded;
    float value = column < width ? stored_number(stored, (u64)row * width + column, kind) : 0.0f;
#if OPERAND == OPERAND_FLOATS
    ((float*)packed)[thread] = value;
#else
    u16* numbers = (u16*)packed + (u64)row * parts * padded;
    u32 high = operand_pair(value, 0.0f);
    numbers[column] = (u16)high;
    if (parts > 1) numbers[padded + column] = (u16)high;
    if (parts > 2) numbers[2 * padded + column] = (u16)rest_pair(value, 0.0f, high);
#endif
}

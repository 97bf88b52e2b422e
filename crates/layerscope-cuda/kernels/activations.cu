// Between two products: bias, activation, gate, and the change of rows to operands and back.

#define NO_ACTIVATION 0
#define GELU_ERF 1
#define GELU_TANH 2
#define GELU_QUICK 3
#define RELU 4
#define RELU_SQUARED 5
#define SILU 6
#define TANH 7

__device__ __forceinline__ float activated(float x, u32 activation) {
    switch (activation) {
        case GELU_ERF: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
        case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
        case GELU_QUICK: return x / (1.0f + expf(-1.702f * x));
        case RELU: return fmaxf(x, 0.0f);
        case RELU_SQUARED: x = fmaxf(x, 0.0f); return x * x;
        case SILU: return x / (1.0f + expf(-x));
        case TANH: return tanhf(x);
        default: return x;
    }
}

__device__ __forceinline__ float4 activated4(float4 x, u32 activation) {
    return make_float4(activated(x.x, activation), activated(x.y, activation), activated(x.z, activation), activated(x.w, activation));
}

// Four neighbours of a row; beyond its end, zeros.
__device__ __forceinline__ float4 load4(const float* row, u32 column, u32 width) {
    if (width % 4 == 0 && column < width) return *(const float4*)(row + column);
    return make_float4(column < width ? row[column] : 0.0f, column + 1 < width ? row[column + 1] : 0.0f,
                       column + 2 < width ? row[column + 2] : 0.0f, column + 3 < width ? row[column + 3] : 0.0f);
}

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
    if (bias) {
        float4 b = load4(bias, column, width);
        value = make_float4(value.x + b.x, value.y + b.y, value.z + b.z, value.w + b.w);
    }
    store4(out, operand, row, column, width, padded, activated4(value, activation));
}

// out[r, j] = activation(x[r, j]) * x[r, width + j].
extern "C" __global__ void gate(const float* x, float* out, u16* operand, u32 rows, u32 width, u32 padded, u32 activation) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 row = thread / (padded / 4), column = thread % (padded / 4) * 4;
    if (row >= rows) return;
    const float* gates = x + (u64)row * 2 * width;
    float4 opened = activated4(load4(gates, column, width), activation);
    float4 up = load4(gates + width, column, width);
    store4(out, operand, row, column, width, padded, make_float4(opened.x * up.x, opened.y * up.y, opened.z * up.z, opened.w * up.w));
}

// An operand back to floats.
extern "C" __global__ void widen(const u16* operand, float* out, u32 rows, u32 width, u32 padded) {
    u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (thread >= (u64)rows * width) return;
    u32 row = thread / width, column = thread % width;
    out[thread] = operand_value(operand + (u64)row * OPERAND_PARTS * padded, padded, column);
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

// Rows of the residual stream: gathered, added, normed, rotated. A row's result depends on that row alone.

// out[r] = scale * first[r] + second[r] + third[r], each table[indices[r]]; row 0 where there are no indices. One warp a row.
extern "C" __global__ void gather(float* out, u32 rows, u32 width, float scale, u32 sources,
                                  const void* first, u32 first_kind, const u32* first_indices,
                                  const void* second, u32 second_kind, const u32* second_indices,
                                  const void* third, u32 third_kind, const u32* third_indices) {
    u32 row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    u64 at_first = first_indices ? (u64)first_indices[row] * width : 0;
    u64 at_second = sources > 1 && second_indices ? (u64)second_indices[row] * width : 0;
    u64 at_third = sources > 2 && third_indices ? (u64)third_indices[row] * width : 0;
    for (u32 column = threadIdx.x % 32; column < width; column += 32) {
        float value = scale * stored_number(first, at_first + column, first_kind);
        if (sources > 1) value += stored_number(second, at_second + column, second_kind);
        if (sources > 2) value += stored_number(third, at_third + column, third_kind);
        out[(u64)row * width + column] = value;
    }
}

// x += y.
extern "C" __global__ void add(float* x, const float* y, u64 count) {
    u64 fours = count / 4;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < fours; i += gridDim.x * (u64)blockDim.x) {
        float4 a = ((float4*)x)[i], b = ((const float4*)y)[i];
        ((float4*)x)[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    if (blockIdx.x == 0 && threadIdx.x < count % 4) x[4 * fours + threadIdx.x] += y[4 * fours + threadIdx.x];
}

// The sum over the THREADS threads that share a row, the same bits in each.
template <int THREADS> __device__ __forceinline__ float row_sum(float value) {
    value = warp_sum(value);
    if (THREADS == 32) return value;
    __shared__ float of_warps[THREADS / 32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; warp++) sum += of_warps[warp];
    return sum;
}

// Which slices are normed, and how: `count` slices of `width` floats from column `start` of rows of `row_width`.
struct Norm {
    float* x;
    const float* y;      // added to x first; or null
    const float* gamma;
    const float* beta;   // or null
    float* out;          // laid out as x
    u16* operand;        // the same as an operand, where slices are whole rows; or null
    u32 slices, count, row_width, start, width, padded;
    float epsilon;
    u32 centred;         // minus the mean, or by the root mean square alone
    u32 keep_sum;        // x becomes x + y
};

__device__ __forceinline__ u64 slice_at(const Norm& norm, u32 slice) {
    return (u64)(slice / norm.count) * norm.row_width + norm.start + (u64)(slice % norm.count) * norm.width;
}

// Slices whose floats fit in the registers of THREADS threads, in fours.
template <int THREADS> __device__ __forceinline__ void norm_in_registers(const Norm& norm) {
    const int FOURS = 8;
    u32 thread = threadIdx.x % THREADS;
    u32 slice = blockIdx.x * (blockDim.x / THREADS) + threadIdx.x / THREADS;
    if (slice >= norm.slices) return;
    u64 at = slice_at(norm, slice);
    float4* x = (float4*)(norm.x + at);
    const float4* y = (const float4*)(norm.y + at);
    u32 fours = norm.width / 4;
    float4 values[FOURS];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < FOURS; i++) {
        u32 four = thread + i * THREADS;
        values[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (four >= fours) continue;
        values[i] = x[four];
        if (norm.y) {
            float4 b = y[four];
            values[i] = make_float4(values[i].x + b.x, values[i].y + b.y, values[i].z + b.z, values[i].w + b.w);
            if (norm.keep_sum) x[four] = values[i];
        }
        sum += (values[i].x + values[i].y) + (values[i].z + values[i].w);
    }
    float mean = norm.centred ? row_sum<THREADS>(sum) / norm.width : 0.0f;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < FOURS; i++) {
        if (thread + i * THREADS >= fours) continue;
        float a = values[i].x - mean, b = values[i].y - mean, c = values[i].z - mean, d = values[i].w - mean;
        squares += (a * a + b * b) + (c * c + d * d);
    }
    float factor = 1.0f / sqrtf(row_sum<THREADS>(squares) / norm.width + norm.epsilon);
    u16* operand = norm.operand + (u64)slice * OPERAND_PARTS * norm.padded;
#pragma unroll
    for (int i = 0; i < FOURS; i++) {
        u32 four = thread + i * THREADS;
        if (four >= fours) continue;
        float4 gamma = ((const float4*)norm.gamma)[four];
        float4 beta = norm.beta ? ((const float4*)norm.beta)[four] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 normed = make_float4((values[i].x - mean) * factor * gamma.x + beta.x, (values[i].y - mean) * factor * gamma.y + beta.y,
                                    (values[i].z - mean) * factor * gamma.z + beta.z, (values[i].w - mean) * factor * gamma.w + beta.w);
        ((float4*)(norm.out + at))[four] = normed;
        if (norm.operand) store_operand4(operand, norm.padded, 4 * four, normed);
    }
    if (norm.operand && norm.padded > norm.width && thread == 0)
        store_operand4(operand, norm.padded, norm.width, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
}

// Up to 1,024 floats in fours: a warp a slice.
extern "C" __global__ void __launch_bounds__(128) norm_by_warps(Norm norm) { norm_in_registers<32>(norm); }

// Up to 8,192 floats in fours: a block a slice.
extern "C" __global__ void __launch_bounds__(256) norm_by_blocks(Norm norm) { norm_in_registers<256>(norm); }

// Any slice: a block each, float by float, read three times.
extern "C" __global__ void __launch_bounds__(256) norm_any(Norm norm) {
    const int THREADS = 256;
    u32 slice = blockIdx.x;
    u64 at = slice_at(norm, slice);
    float* x = norm.x + at;
    float sum = 0.0f;
    for (u32 column = threadIdx.x; column < norm.width; column += THREADS) {
        if (norm.y) x[column] += norm.y[at + column];    // the sum is read again below: it is kept in any case
        sum += x[column];
    }
    float mean = norm.centred ? row_sum<THREADS>(sum) / norm.width : 0.0f;
    float squares = 0.0f;
    for (u32 column = threadIdx.x; column < norm.width; column += THREADS) squares += (x[column] - mean) * (x[column] - mean);
    float factor = 1.0f / sqrtf(row_sum<THREADS>(squares) / norm.width + norm.epsilon);
    u16* operand = norm.operand + (u64)slice * OPERAND_PARTS * norm.padded;
    for (u32 column = threadIdx.x; column < norm.padded; column += THREADS) {
        float normed = 0.0f;
        if (column < norm.width) {
            normed = (x[column] - mean) * factor * norm.gamma[column] + (norm.beta ? norm.beta[column] : 0.0f);
            norm.out[at + column] = normed;
        }
        if (norm.operand) store_operand1(operand, norm.padded, column, normed);
    }
}

// Slices of an operand of one part, in place: a warp each. `x` is the operand, `row_width` its stride.
extern "C" __global__ void __launch_bounds__(128) norm_halves(Norm norm) {
    u32 slice = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (slice >= norm.slices) return;
    u16* x = norm.operand + slice_at(norm, slice);
    float sum = 0.0f;
    for (u32 column = lane; column < norm.width; column += 32) sum += half_value(x[column]);
    float mean = norm.centred ? warp_sum(sum) / norm.width : 0.0f;
    float squares = 0.0f;
    for (u32 column = lane; column < norm.width; column += 32) {
        float value = half_value(x[column]) - mean;
        squares += value * value;
    }
    float factor = 1.0f / sqrtf(warp_sum(squares) / norm.width + norm.epsilon);
    for (u32 column = lane; column < norm.width; column += 32) {
        float normed = (half_value(x[column]) - mean) * factor * norm.gamma[column] + (norm.beta ? norm.beta[column] : 0.0f);
        x[column] = (u16)operand_pair(normed, 0.0f);
    }
}

// Which heads are turned: `count` slices of `width` numbers from column `start` of rows of `row_width`.
struct Rotation {
    void* x;
    const float* cosines;
    const float* sines;
    u32 rows, count, row_width, start, width, half;
    u32 interleaved;    // dimension 2i with 2i + 1, or i with i + half
};

__device__ __forceinline__ float number(const float* x) { return *x; }
__device__ __forceinline__ float number(const u16* x) { return half_value(*x); }
__device__ __forceinline__ void set_number(float* x, float value) { *x = value; }
__device__ __forceinline__ void set_number(u16* x, float value) { *x = (u16)operand_pair(value, 0.0f); }

// Turns pairs of each head by the angles of its row, a thread each.
template <typename Number> __device__ __forceinline__ void turn(const Rotation& r) {
    u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (thread >= (u64)r.rows * r.count * r.half) return;
    u32 pair = thread % r.half;
    u32 slice = thread / r.half;
    u32 row = slice / r.count;
    Number* head = (Number*)r.x + (u64)row * r.row_width + r.start + (slice % r.count) * r.width;
    float cosine = r.cosines[(u64)row * r.half + pair], sine = r.sines[(u64)row * r.half + pair];
    Number* first = head + (r.interleaved ? 2 * pair : pair);
    Number* second = r.interleaved ? first + 1 : first + r.half;
    float a = number(first), b = number(second);
    set_number(first, a * cosine - b * sine);
    set_number(second, b * cosine + a * sine);
}

extern "C" __global__ void rotate(Rotation rotation) { turn<float>(rotation); }

extern "C" __global__ void rotate_halves(Rotation rotation) { turn<u16>(rotation); }

// Attention on tensor cores: 4 warps, each with 16 queries. PRODUCTS says in which numbers: 1 bfloat16, 2 half precision, 3 the three
// larger products of two bfloat16 terms. Scores, softmax and sums are f32.

#define DIM ((HEAD_DIM + 15) / 16 * 16)
#define STRIDE (DIM + 8)    // 16 bytes more than the row: the 8 rows of a matrix lie in different banks
#if PRODUCTS == 3
#define TERMS 2
#define KEYS (DIM <= 64 ? 64 : DIM <= 128 ? 32 : 16)
#else
#define TERMS 1
#define KEYS (DIM <= 128 ? 64 : 32)
#endif
#define EIGHTS (KEYS / 8)

__device__ __forceinline__ u32 product_pair(float low, float high) {
#if PRODUCTS == 2
    return f16_pair(low, high);
#else
    return bf16_pair(low, high);
#endif
}

// sums += a b, 16 x 8 with 16 in between.
__device__ __forceinline__ void multiply(float (&sums)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if PRODUCTS == 2
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#endif
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void load_matrices(u32 (&out)[4], const u16* at) {
    u32 address = (u32)__cvta_generic_to_shared(at);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(address));
}

__device__ __forceinline__ void load_transposed(u32 (&out)[4], const u16* at) {
    u32 address = (u32)__cvta_generic_to_shared(at);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(address));
}

// Rows of one head to shared memory, as terms; from `rows` to `room`, zeros. The low terms lie `terms` numbers further on.
__device__ __forceinline__ void load_rows(u16* shared, u32 terms, const float* from, u64 stride, u32 rows, u32 room) {
    for (u32 i = threadIdx.x; i < room * (DIM / 4); i += THREADS) {
        u32 row = i / (DIM / 4), column = i % (DIM / 4) * 4;
        float4 value = row < rows ? head_values(from + row * stride, column) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        uint2 high = make_uint2(product_pair(value.x, value.y), product_pair(value.z, value.w));
        *(uint2*)(shared + row * STRIDE + column) = high;
#if PRODUCTS == 3
        uint2 low = make_uint2(rest_pair(value.x, value.y, high.x), rest_pair(value.z, value.w, high.y));
        *(uint2*)(shared + terms + row * STRIDE + column) = low;
#endif
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) attention(Attention a) {
    extern __shared__ float4 memory[];
    u16* queries = (u16*)memory;                            // [TERMS][TILE][STRIDE]
    u16* keys = queries + TERMS * TILE * STRIDE;            // [TERMS][KEYS][STRIDE]
    u16* values = keys + TERMS * KEYS * STRIDE;             // [TERMS][KEYS][STRIDE]

    Tile tile = a.tiles[blockIdx.x];
    u32 head = blockIdx.y, kv_head = head * a.kv_heads / a.heads;
    u64 stride = (u64)(a.heads + 2 * a.kv_heads) * HEAD_DIM;
    const float* rows = a.qkv + tile.start * stride;
    u32 count = min(tile.length - tile.first, TILE);
    load_rows(queries, TILE * STRIDE, rows + tile.first * stride + head * HEAD_DIM, stride, count, (count + 15) / 16 * 16);

    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    bool active = warp * 16 < count;
    // A lane has columns 2 (lane % 4) and the next of every eight, of rows lane / 4 and 8 further down.
    u32 own = warp * 16 + lane / 4;
    float largest[2] = {-INFINITY_F, -INFINITY_F}, total[2] = {0.0f, 0.0f};
    float sums[DIM / 8][4];
#pragma unroll
    for (int n = 0; n < DIM / 8; n++)
#pragma unroll
        for (int c = 0; c < 4; c++) sums[n][c] = 0.0f;

    u32 end = end_of_keys(a, tile.first + count - 1, tile.length);
    for (u32 key0 = first_key(a, tile.first) / KEYS * KEYS; key0 < end; key0 += KEYS) {
        u32 here = min(end - key0, KEYS), room = (here + 15) / 16 * 16;
        __syncthreads();
        load_rows(keys, KEYS * STRIDE, rows + key0 * stride + (a.heads + kv_head) * HEAD_DIM, stride, here, room);
        load_rows(values, KEYS * STRIDE, rows + key0 * stride + (a.heads + a.kv_heads + kv_head) * HEAD_DIM, stride, here, room);
        __syncthreads();
        if (!active) continue;

        float scores[EIGHTS][4];
#pragma unroll
        for (int j = 0; j < EIGHTS; j++)
#pragma unroll
            for (int c = 0; c < 4; c++) scores[j][c] = 0.0f;
#pragma unroll
        for (int d = 0; d < DIM; d += 16) {
            u32 q[TERMS][4];
#pragma unroll
            for (int term = 0; term < TERMS; term++)
                load_matrices(q[term], queries + (term * TILE + warp * 16 + lane % 16) * STRIDE + d + lane / 16 * 8);
#pragma unroll
            for (int j = 0; j < EIGHTS; j += 2) {
                if (8 * j >= room) continue;
                const u16* at = keys + (8 * j + lane % 8 + lane / 16 * 8) * STRIDE + d + lane / 8 % 2 * 8;
                u32 k[4];
                load_matrices(k, at);
                multiply(scores[j], q[0], k[0], k[1]);
                multiply(scores[j + 1], q[0], k[2], k[3]);
#if PRODUCTS == 3
                multiply(scores[j], q[1], k[0], k[1]);
                multiply(scores[j + 1], q[1], k[2], k[3]);
                load_matrices(k, at + KEYS * STRIDE);
                multiply(scores[j], q[0], k[0], k[1]);
                multiply(scores[j + 1], q[0], k[2], k[3]);
#endif
            }
        }

        float fade[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            u32 query = tile.first + own + 8 * half;
            float top = -INFINITY_F;
#pragma unroll
            for (int j = 0; j < EIGHTS; j++)
#pragma unroll
                for (int c = 2 * half; c < 2 * half + 2; c++) {
                    u32 key = key0 + 8 * j + 2 * (lane % 4) + c % 2;
                    scores[j][c] = biased_score(a, scores[j][c], head, query, key, tile.length);
                    top = fmaxf(top, scores[j][c]);
                }
            top = fmaxf(top, __shfl_xor_sync(FULL_WARP, top, 1));
            top = fmaxf(top, __shfl_xor_sync(FULL_WARP, top, 2));
            float now = fmaxf(largest[half], top);
            float base = now == -INFINITY_F ? 0.0f : now;
            fade[half] = exp2f(largest[half] - base);
            largest[half] = now;
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < EIGHTS; j++)
#pragma unroll
                for (int c = 2 * half; c < 2 * half + 2; c++) {
                    scores[j][c] = exp2f(scores[j][c] - base);
                    sum += scores[j][c];
                }
            sum += __shfl_xor_sync(FULL_WARP, sum, 1);
            sum += __shfl_xor_sync(FULL_WARP, sum, 2);
            total[half] = total[half] * fade[half] + sum;
        }
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) sums[n][c] *= fade[c / 2];

#pragma unroll
        for (int j = 0; j < EIGHTS; j += 2) {
            if (8 * j >= room) continue;
            // Two eights of weights, as they lie, are the left factor of the next product.
            u32 weights[4] = {product_pair(scores[j][0], scores[j][1]), product_pair(scores[j][2], scores[j][3]),
                              product_pair(scores[j + 1][0], scores[j + 1][1]), product_pair(scores[j + 1][2], scores[j + 1][3])};
#if PRODUCTS == 3
            u32 rest[4] = {rest_pair(scores[j][0], scores[j][1], weights[0]), rest_pair(scores[j][2], scores[j][3], weights[1]),
                           rest_pair(scores[j + 1][0], scores[j + 1][1], weights[2]),
                           rest_pair(scores[j + 1][2], scores[j + 1][3], weights[3])};
#endif
#pragma unroll
            for (int n = 0; n < DIM / 8; n += 2) {
                const u16* at = values + (8 * j + lane % 16) * STRIDE + 8 * n + lane / 16 * 8;
                u32 v[4];
                load_transposed(v, at);
                multiply(sums[n], weights, v[0], v[1]);
                multiply(sums[n + 1], weights, v[2], v[3]);
#if PRODUCTS == 3
                multiply(sums[n], rest, v[0], v[1]);
                multiply(sums[n + 1], rest, v[2], v[3]);
                load_transposed(v, at + KEYS * STRIDE);
                multiply(sums[n], weights, v[0], v[1]);
                multiply(sums[n + 1], weights, v[2], v[3]);
#endif
            }
        }
    }
    if (!active) return;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (own + 8 * half >= count) continue;
        u64 row = tile.start + tile.first + own + 8 * half;
        float factor = 1.0f / total[half];
        float* out = a.out + (row * a.heads + head) * HEAD_DIM;
        u16* operand = a.operand + row * OPERAND_PARTS * a.padded;
#pragma unroll
        for (int n = 0; n < DIM / 8; n++) {
            u32 column = 8 * n + 2 * (lane % 4);
            float first = sums[n][2 * half] * factor, second = sums[n][2 * half + 1] * factor;
            if (HEAD_DIM % 2 == 0) {
                if (column >= HEAD_DIM) continue;
                if (a.out) *(float2*)(out + column) = make_float2(first, second);
                if (a.operand) store_operand2(operand, a.padded, head * HEAD_DIM + column, first, second);
            } else {
                if (a.out && column < HEAD_DIM) out[column] = first;
                if (a.out && column + 1 < HEAD_DIM) out[column + 1] = second;
                if (a.operand && column < HEAD_DIM) store_operand1(operand, a.padded, head * HEAD_DIM + column, first);
                if (a.operand && column + 1 < HEAD_DIM) store_operand1(operand, a.padded, head * HEAD_DIM + column + 1, second);
            }
        }
        // The padding after the last head.
        if (a.operand && head + 1 == a.heads && lane % 4 == 0)
            for (u32 column = a.heads * HEAD_DIM; column < a.padded; column++) store_operand1(operand, a.padded, column, 0.0f);
    }
}

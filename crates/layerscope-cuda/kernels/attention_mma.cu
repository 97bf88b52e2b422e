// Attention on tensor cores, in the 16-bit numbers of the operands: 4 warps, each with 16 queries in its registers. Scores, softmax and
// sums are f32.

#define DIM ((HEAD_DIM + 15) / 16 * 16)
#define STRIDE (DIM + 8)    // 16 bytes more than the row: the 8 rows of a matrix lie in different banks
#define KEYS (DIM <= 128 ? 64 : 32)
#define GROUPS (KEYS / 16)
#define QUERIES_STAY (DIM <= 128)    // in registers

// sums += a b, 16 x 8 with 16 in between.
__device__ __forceinline__ void multiply(float (&sums)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if OPERAND == OPERAND_F16
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
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_transposed(u32 (&out)[4], const u16* at) {
    u32 address = (u32)__cvta_generic_to_shared(at);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(address) : "memory");
}

// To about 22 bits; the weights are rounded to 16 at once.
__device__ __forceinline__ float power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// Rows of one head to shared memory; from `rows` to `room`, zeros.
__device__ __forceinline__ void load_rows(u16* shared, const u16* from, u64 stride, u32 rows, u32 room) {
#if HEAD_DIM % 8 == 0
    for (u32 i = threadIdx.x; i < room * (DIM / 8); i += THREADS) {
        u32 row = i / (DIM / 8), column = i % (DIM / 8) * 8;
        bool there = row < rows && column < HEAD_DIM;
        copy16(shared + row * STRIDE + column, there ? from + row * stride + column : from, there);
    }
#else
    for (u32 i = threadIdx.x; i < room * DIM; i += THREADS) {
        u32 row = i / DIM, column = i % DIM;
        shared[row * STRIDE + column] = row < rows && column < HEAD_DIM ? from[row * stride + column] : 0;
    }
#endif
}

// Two neighbours of a query, from an even column; beyond its end, zeros.
__device__ __forceinline__ u32 query_pair(const u16* query, u32 column) {
#if HEAD_DIM % 2 == 0
    return column < HEAD_DIM ? *(const u32*)(query + column) : 0;
#else
    return (column < HEAD_DIM ? query[column] : 0) | (column + 1 < HEAD_DIM ? query[column + 1] << 16 : 0);
#endif
}

// Sixteen columns of a warp's queries, as the left factor of a product: a lane has two neighbours of rows lane / 4 and 8 further down.
__device__ __forceinline__ void load_queries(u32 (&out)[4], const u16* upper, const u16* lower, u32 column) {
    out[0] = query_pair(upper, column);
    out[1] = query_pair(lower, column);
    out[2] = query_pair(upper, column + 8);
    out[3] = query_pair(lower, column + 8);
}

extern "C" __global__ void __launch_bounds__(THREADS) attention(Attention a) {
    extern __shared__ float4 memory[];
    u16* keys = (u16*)memory;                 // [KEYS][STRIDE]
    u16* values = keys + KEYS * STRIDE;       // [KEYS][STRIDE]

    Tile tile = a.tiles[blockIdx.x];
    u32 head = blockIdx.y, kv_head = head * a.kv_heads / a.heads;
    u64 stride = a.stride;
    const u16* rows = (const u16*)a.qkv + tile.start * stride;
    u32 count = min(tile.length - tile.first, TILE);

    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    bool active = warp * 16 < count;
    // A lane has columns 2 (lane % 4) and the next of every eight, of rows lane / 4 and 8 further down.
    u32 own = warp * 16 + lane / 4;
    const u16* upper = rows + (tile.first + min(own, count - 1)) * stride + head * HEAD_DIM;
    const u16* lower = rows + (tile.first + min(own + 8, count - 1)) * stride + head * HEAD_DIM;
    Seen seen[2] = {seen_by(a, tile.first + own, tile.length), seen_by(a, tile.first + own + 8, tile.length)};
    u32 queries[QUERIES_STAY ? DIM / 16 : 1][4];
    Sight sight = sight_of(a, tile.first + min(warp * 16, count - 1), tile.first + min(warp * 16 + 16, count) - 1, tile.length);
    float product_scale = a.scale * LOG2_E;
    float largest[2] = {-INFINITY_F, -INFINITY_F}, total[2] = {0.0f, 0.0f};
    float sums[DIM / 8][4];
#pragma unroll
    for (int n = 0; n < DIM / 8; n++)
#pragma unroll
        for (int c = 0; c < 4; c++) sums[n][c] = 0.0f;

    u32 start = first_key(a, tile.first) / KEYS * KEYS, end = end_of_keys(a, tile.first + count - 1, tile.length);
    for (u32 key0 = start; key0 < end; key0 += KEYS) {
        u32 here = min(end - key0, KEYS), room = (here + 15) / 16 * 16;
        if (key0 != start) __syncthreads();
        load_rows(keys, rows + key0 * stride + (a.heads + kv_head) * HEAD_DIM, stride, here, room);
        load_rows(values, rows + key0 * stride + (a.heads + a.kv_heads + kv_head) * HEAD_DIM, stride, here, room);
        if (QUERIES_STAY && key0 == start) {
#pragma unroll
            for (int d = 0; d < (QUERIES_STAY ? DIM : 16); d += 16)
                load_queries(queries[d / 16], upper, lower, d + 2 * (lane % 4));
        }
        wait_for_copies();
        __syncthreads();

        // Sixteen keys a group; those that no query of the warp sees are passed over.
        u32 first_group = sight.first > key0 ? (sight.first - key0) / 16 : 0;
        u32 end_group = sight.end > key0 ? (min(sight.end - key0, here) + 15) / 16 : 0;
        if (!active || first_group >= end_group) continue;

        float scores[2 * GROUPS][4];
#pragma unroll
        for (int j = 0; j < 2 * GROUPS; j++)
#pragma unroll
            for (int c = 0; c < 4; c++) scores[j][c] = 0.0f;
#pragma unroll
        for (int d = 0; d < DIM; d += 16) {
            u32 again[4];
            if (!QUERIES_STAY) load_queries(again, upper, lower, d + 2 * (lane % 4));
            const u32 (&q)[4] = QUERIES_STAY ? queries[QUERIES_STAY ? d / 16 : 0] : again;
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                if (group < first_group || group >= end_group) continue;
                u32 k[4];
                load_matrices(k, keys + (16 * group + lane % 8 + lane / 16 * 8) * STRIDE + d + lane / 8 % 2 * 8);
                multiply(scores[2 * group], q, k[0], k[1]);
                multiply(scores[2 * group + 1], q, k[2], k[3]);
            }
        }

        float top[2] = {-INFINITY_F, -INFINITY_F};
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            if (group < first_group || group >= end_group) continue;
            u32 key = key0 + 16 * group;
            bool plain = key >= sight.common_first && key + 16 <= sight.common_end;
#pragma unroll
            for (int j = 2 * group; j < 2 * group + 2; j++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    if (plain) {
                        scores[j][c] *= product_scale;
                    } else {
                        scores[j][c] = score_of(a, scores[j][c], head, seen[c / 2], key0 + 8 * j + 2 * (lane % 4) + c % 2);
                    }
                    top[c / 2] = fmaxf(top[c / 2], scores[j][c]);
                }
        }

        float base_of[2], fade[2], sum[2] = {0.0f, 0.0f};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            top[half] = fmaxf(top[half], __shfl_xor_sync(FULL_WARP, top[half], 1));
            top[half] = fmaxf(top[half], __shfl_xor_sync(FULL_WARP, top[half], 2));
            float now = fmaxf(largest[half], top[half]);
            base_of[half] = now == -INFINITY_F ? 0.0f : now;
            fade[half] = power_of_two(largest[half] - base_of[half]);
            largest[half] = now;
        }
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) sums[n][c] *= fade[c / 2];

#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            if (group < first_group || group >= end_group) continue;
#pragma unroll
            for (int j = 2 * group; j < 2 * group + 2; j++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    scores[j][c] = power_of_two(scores[j][c] - base_of[c / 2]);
                    sum[c / 2] += scores[j][c];
                }
            // Two eights of weights, as they lie, are the left factor of the next product.
            u32 weights[4] = {operand_pair(scores[2 * group][0], scores[2 * group][1]),
                              operand_pair(scores[2 * group][2], scores[2 * group][3]),
                              operand_pair(scores[2 * group + 1][0], scores[2 * group + 1][1]),
                              operand_pair(scores[2 * group + 1][2], scores[2 * group + 1][3])};
#pragma unroll
            for (int n = 0; n < DIM / 8; n += 2) {
                u32 v[4];
                load_transposed(v, values + (16 * group + lane % 16) * STRIDE + 8 * n + lane / 16 * 8);
                multiply(sums[n], weights, v[0], v[1]);
                multiply(sums[n + 1], weights, v[2], v[3]);
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 1);
            sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 2);
            total[half] = total[half] * fade[half] + sum[half];
        }
    }
    if (!active) return;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (own + 8 * half >= count) continue;
        u64 row = tile.start + tile.first + own + 8 * half;
        float factor = 1.0f / total[half];
        u16* operand = a.operand + row * a.padded;
#pragma unroll
        for (int n = 0; n < DIM / 8; n++) {
            u32 column = 8 * n + 2 * (lane % 4);
            float first = sums[n][2 * half] * factor, second = sums[n][2 * half + 1] * factor;
#if HEAD_DIM % 2 == 0
            if (column < HEAD_DIM) store_operand2(operand, a.padded, head * HEAD_DIM + column, first, second);
#else
            if (column < HEAD_DIM) store_operand1(operand, a.padded, head * HEAD_DIM + column, first);
            if (column + 1 < HEAD_DIM) store_operand1(operand, a.padded, head * HEAD_DIM + column + 1, second);
#endif
        }
        if (lane % 4 == 0) clear_padding(a, operand, head);
    }
}

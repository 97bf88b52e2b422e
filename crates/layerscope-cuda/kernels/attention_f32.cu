// Attention in f32: 4 warps, each with 16 queries; keys and values in shared memory, 8 lanes to a query.

#define DIM ((HEAD_DIM + 3) / 4 * 4)
#define STRIDE (DIM + 4)
#if HEAD_DIM <= 128
#define KEYS 32
#else
#define KEYS 8
#endif
#define SCORES (KEYS / 8)          // of a lane, for each of its 4 queries
#define FOURS ((DIM + 31) / 32)    // of a lane's output, for each of its 4 queries
#define WEIGHTS_STRIDE (KEYS + 4)

// Rows of one head to shared memory; from `rows` to `room`, zeros.
__device__ __forceinline__ void load_rows(float* shared, const float* from, u64 stride, u32 rows, u32 room) {
    for (u32 i = threadIdx.x; i < room * (DIM / 4); i += THREADS) {
        u32 row = i / (DIM / 4), column = i % (DIM / 4) * 4;
#if HEAD_DIM % 4 == 0
        copy16(shared + row * STRIDE + column, from + (row < rows ? row : 0) * stride + column, row < rows);
#else
        float4 value = row < rows ? head_values(from + row * stride, column) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        *(float4*)(shared + row * STRIDE + column) = value;
#endif
    }
}

__device__ __forceinline__ float dot4(float4 a, float4 b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ __forceinline__ float4 times4(float4 a, float factor) {
    return make_float4(a.x * factor, a.y * factor, a.z * factor, a.w * factor);
}

// Four neighbours of a query's result.
__device__ __forceinline__ void store_result(const Attention& a, u64 row, u32 head, u32 column, float4 value) {
    float* out = a.out + (row * a.heads + head) * HEAD_DIM;
    u16* operand = a.operand + row * OPERAND_PARTS * a.padded;
    u32 place = head * HEAD_DIM + column;
#if HEAD_DIM % 4 == 0
    if (column >= HEAD_DIM) return;
    if (a.out) *(float4*)(out + column) = value;
    if (a.operand) store_operand4(operand, a.padded, place, value);
#else
    float values[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (column + i >= HEAD_DIM) continue;
        if (a.out) out[column + i] = values[i];
        if (a.operand) store_operand1(operand, a.padded, place + i, values[i]);
    }
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, DIM <= 64 ? 5 : 1) attention(Attention a) {
    extern __shared__ float4 memory[];
    float* queries = (float*)memory;                 // [TILE][STRIDE]
    float* keys = queries + TILE * STRIDE;           // [KEYS][STRIDE]
    float* values = keys + KEYS * STRIDE;            // [KEYS][STRIDE]
    float* weights = values + KEYS * STRIDE;         // [TILE][WEIGHTS_STRIDE]

    Tile tile = a.tiles[blockIdx.x];
    u32 head = blockIdx.y, kv_head = head * a.kv_heads / a.heads;
    u64 stride = a.stride;
    const float* rows = (const float*)a.qkv + tile.start * stride;
    u32 count = min(tile.length - tile.first, TILE);
    load_rows(queries, rows + tile.first * stride + head * HEAD_DIM, stride, count, (count + 15) / 16 * 16);

    u32 warp = threadIdx.x / 32, group = threadIdx.x % 32 / 8, lane = threadIdx.x % 8;
    bool active = warp * 16 < count;
    Sight sight = sight_of(a, tile.first + min(warp * 16, count - 1), tile.first + min(warp * 16 + 16, count) - 1, tile.length);
    float product_scale = a.scale * LOG2_E;
    // The lane's queries: warp * 16 + group + 4 i.
    u32 own = warp * 16 + group;
    float largest[4], total[4];
    float4 sums[4][FOURS];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        largest[i] = -INFINITY_F;
        total[i] = 0.0f;
#pragma unroll
        for (int c = 0; c < FOURS; c++) sums[i][c] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    u32 end = end_of_keys(a, tile.first + count - 1, tile.length);
    for (u32 key0 = first_key(a, tile.first) / KEYS * KEYS; key0 < end; key0 += KEYS) {
        u32 here = min(end - key0, KEYS), room = (here + 7) / 8 * 8;
        __syncthreads();
        load_rows(keys, rows + key0 * stride + (a.heads + kv_head) * HEAD_DIM, stride, here, room);
        load_rows(values, rows + key0 * stride + (a.heads + a.kv_heads + kv_head) * HEAD_DIM, stride, here, room);
        wait_for_copies();
        __syncthreads();
        if (!active || key0 >= sight.end || key0 + KEYS <= sight.first) continue;

        float scores[4][SCORES];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < SCORES; j++) scores[i][j] = 0.0f;
#pragma unroll 4
        for (int d = 0; d < DIM; d += 4) {
            float4 q[4];
#pragma unroll
            for (int i = 0; i < 4; i++) q[i] = *(float4*)(queries + (own + 4 * i) * STRIDE + d);
#pragma unroll
            for (int j = 0; j < SCORES; j++) {
                if (8 * j >= here) break;
                float4 k = *(float4*)(keys + (lane + 8 * j) * STRIDE + d);
#pragma unroll
                for (int i = 0; i < 4; i++) scores[i][j] = dot4(q[i], k, scores[i][j]);
            }
        }

#pragma unroll
        for (int j = 0; j < SCORES; j++) {
            u32 key = key0 + 8 * j;
            if (key >= sight.common_first && key + 8 <= sight.common_end) {
#pragma unroll
                for (int i = 0; i < 4; i++) scores[i][j] *= product_scale;
            } else {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    scores[i][j] = score_of(a, scores[i][j], head, seen_by(a, tile.first + own + 4 * i, tile.length), key + lane);
            }
        }

#pragma unroll
        for (int i = 0; i < 4; i++) {
            float top = scores[i][0];
#pragma unroll
            for (int j = 1; j < SCORES; j++) top = fmaxf(top, scores[i][j]);
#pragma unroll
            for (int distance = 4; distance > 0; distance >>= 1) top = fmaxf(top, __shfl_xor_sync(FULL_WARP, top, distance));
            float now = fmaxf(largest[i], top);
            float base = now == -INFINITY_F ? 0.0f : now;
            float fade = exp2f(largest[i] - base);
            largest[i] = now;
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < SCORES; j++) {
                if (8 * j >= here) break;
                float weight = exp2f(scores[i][j] - base);
                weights[(own + 4 * i) * WEIGHTS_STRIDE + lane + 8 * j] = weight;
                sum += weight;
            }
#pragma unroll
            for (int distance = 4; distance > 0; distance >>= 1) sum += __shfl_xor_sync(FULL_WARP, sum, distance);
            total[i] = total[i] * fade + sum;
#pragma unroll
            for (int c = 0; c < FOURS; c++) sums[i][c] = times4(sums[i][c], fade);
        }
        __syncwarp();

        for (u32 k = 0; k < here; k += 4) {
            float4 weight[4];
#pragma unroll
            for (int i = 0; i < 4; i++) weight[i] = *(float4*)(weights + (own + 4 * i) * WEIGHTS_STRIDE + k);
#pragma unroll
            for (int step = 0; step < 4; step++) {
#pragma unroll
                for (int c = 0; c < FOURS; c++) {
                    u32 column = (lane + 8 * c) * 4;
                    if (DIM % 32 != 0 && column >= DIM) continue;
                    float4 value = *(float4*)(values + (k + step) * STRIDE + column);
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        float w = step == 0 ? weight[i].x : step == 1 ? weight[i].y : step == 2 ? weight[i].z : weight[i].w;
                        sums[i][c] = make_float4(fmaf(w, value.x, sums[i][c].x), fmaf(w, value.y, sums[i][c].y),
                                                 fmaf(w, value.z, sums[i][c].z), fmaf(w, value.w, sums[i][c].w));
                    }
                }
            }
        }
        __syncwarp();
    }
    if (!active) return;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (own + 4 * i >= count) continue;
        u64 row = tile.start + tile.first + own + 4 * i;
        float factor = 1.0f / total[i];
#pragma unroll
        for (int c = 0; c < FOURS; c++) store_result(a, row, head, (lane + 8 * c) * 4, times4(sums[i][c], factor));
        if (a.operand && lane == 0) clear_padding(a, a.operand + row * OPERAND_PARTS * a.padded, head);
    }
}

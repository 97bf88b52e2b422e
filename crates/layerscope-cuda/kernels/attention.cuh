// What both kernels of attention share: tiles of queries, what a query sees, and the bias of its scores.
//
// A tile is up to TILE queries of one sequence, 16 a warp. A query's result depends on its sequence alone: keys are visited from the
// first one that the tile sees, in steps that depend on the dimension of a head. BIAS says what is added to scores.

#define TILE 64
#define THREADS 128
#define LOG2_E 1.44269504088896341f

#define BIAS_NONE 0
#define BIAS_ALIBI 1
#define BIAS_ALIBI_BF16 2
#define BIAS_RELATIVE 3

struct Tile {
    u32 start;    // the sequence's first row
    u32 length;   // of the sequence
    u32 first;    // the first query of the tile, counted in the sequence
    u32 unused;
};

struct Attention {
    const void* qkv;     // floats, or 16-bit numbers on tensor cores
    const Tile* tiles;
    float* out;          // or null
    u16* operand;        // or null
    const float* bias;   // slopes, or values by distance
    u32 heads, kv_heads;
    u32 padded;          // of the operand's parts
    u32 causal;
    u32 window;          // 0: none
    u32 reach;
    u32 stride;          // numbers from one row of qkv to the next
    float bias_scale;
    float scale;
};

__device__ __forceinline__ u32 first_key(const Attention& a, u32 query) {
    return a.window && query + 1 > a.window ? query + 1 - a.window : 0;
}

__device__ __forceinline__ u32 end_of_keys(const Attention& a, u32 query, u32 length) {
    if (a.causal) return query + 1;
    return a.window && query + a.window < length ? query + a.window : length;
}

// The keys that one query sees, and its score of one of them in units of log 2; minus infinity of those it does not see.
struct Seen {
    u32 query, first, count;
};

__device__ __forceinline__ Seen seen_by(const Attention& a, u32 query, u32 length) {
    Seen seen = {query, first_key(a, query), 0};
    seen.count = end_of_keys(a, query, length) - seen.first;
    return seen;
}

__device__ __forceinline__ float score_of(const Attention& a, float dot, u32 head, const Seen& seen, u32 key) {
    if (key - seen.first >= seen.count) return -INFINITY_F;
#if BIAS == BIAS_ALIBI
    return (dot * a.scale + a.bias[head] * (float)key * a.bias_scale) * LOG2_E;
#elif BIAS == BIAS_ALIBI_BF16
    return (dot * a.scale + round_to_bf16(round_to_bf16(a.bias[head]) * round_to_bf16((float)key)) * a.bias_scale) * LOG2_E;
#elif BIAS == BIAS_RELATIVE
    int reach = a.reach, distance = (int)key - (int)seen.query;
    distance = distance < -reach ? -reach : distance > reach ? reach : distance;
    return (dot * a.scale + a.bias[head * (2 * reach + 1) + reach + distance]) * LOG2_E;
#else
    return dot * (a.scale * LOG2_E);
#endif
}

// The keys that a warp's queries see.
struct Sight {
    u32 first, end;                  // by any of the queries
    u32 common_first, common_end;    // by all of them; without a bias, scores there are products and nothing else
};

__device__ __forceinline__ Sight sight_of(const Attention& a, u32 first_query, u32 last_query, u32 length) {
    Sight sight;
    sight.first = first_key(a, first_query);
    sight.end = end_of_keys(a, last_query, length);
    sight.common_first = first_key(a, last_query);
    sight.common_end = BIAS == BIAS_NONE ? end_of_keys(a, first_query, length) : 0;
    return sight;
}

// 16 bytes to shared memory without a stop in registers; zeros where there is nothing to copy.
__device__ __forceinline__ void copy16(void* shared, const void* from, bool there) {
    u32 address = (u32)__cvta_generic_to_shared(shared), bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Four neighbours of a head's row; beyond its end, zeros.
__device__ __forceinline__ float4 head_values(const float* row, u32 column) {
    if (HEAD_DIM % 4 == 0) return column < HEAD_DIM ? *(const float4*)(row + column) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(column < HEAD_DIM ? row[column] : 0.0f, column + 1 < HEAD_DIM ? row[column + 1] : 0.0f,
                       column + 2 < HEAD_DIM ? row[column + 2] : 0.0f, column + 3 < HEAD_DIM ? row[column + 3] : 0.0f);
}

// The padding after the last head, by one thread a row.
__device__ __forceinline__ void clear_padding(const Attention& a, u16* operand, u32 head) {
    if (head + 1 != a.heads) return;
#pragma unroll 1
    for (u32 column = a.heads * HEAD_DIM; column < a.padded; column++) store_operand1(operand, a.padded, column, 0.0f);
}

// What both kernels of attention share: tiles of queries, what a query sees, and the bias of its scores.
//
// A tile is up to TILE queries of one sequence. A query's result depends on its sequence alone: keys are visited from the first one that
// the tile sees, in steps that depend on the dimension of a head.

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
    const float* qkv;
    const Tile* tiles;
    float* out;          // or null
    u16* operand;        // or null
    const float* bias;   // slopes, or values by distance
    u32 heads, kv_heads;
    u32 padded;          // of the operand's parts
    u32 causal;
    u32 window;          // 0: none
    u32 bias_kind;
    u32 reach;
    float bias_scale;
    float scale;
    u32 unused;
};

__device__ __forceinline__ u32 first_key(const Attention& a, u32 query) {
    return a.window && query + 1 > a.window ? query + 1 - a.window : 0;
}

__device__ __forceinline__ u32 end_of_keys(const Attention& a, u32 query, u32 length) {
    if (a.causal) return query + 1;
    return a.window && query + a.window < length ? query + a.window : length;
}

// The biased score of a query and a key, in units of log 2; minus infinity where the query does not see the key.
__device__ __forceinline__ float biased_score(const Attention& a, float dot, u32 head, u32 query, u32 key, u32 length) {
    if (key < first_key(a, query) || key >= end_of_keys(a, query, length)) return -INFINITY_F;
    float score = dot * a.scale;
    if (a.bias_kind == BIAS_ALIBI) {
        score += a.bias[head] * (float)key * a.bias_scale;
    } else if (a.bias_kind == BIAS_ALIBI_BF16) {
        score += round_to_bf16(round_to_bf16(a.bias[head]) * round_to_bf16((float)key)) * a.bias_scale;
    } else if (a.bias_kind == BIAS_RELATIVE) {
        int reach = a.reach, distance = (int)key - (int)query;
        distance = distance < -reach ? -reach : distance > reach ? reach : distance;
        score += a.bias[head * (2 * reach + 1) + reach + distance];
    }
    return score * LOG2_E;
}

// Four neighbours of a head's row; beyond its end, zeros.
__device__ __forceinline__ float4 head_values(const float* row, u32 column) {
    if (HEAD_DIM % 4 == 0) return column < HEAD_DIM ? *(const float4*)(row + column) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(column < HEAD_DIM ? row[column] : 0.0f, column + 1 < HEAD_DIM ? row[column + 1] : 0.0f,
                       column + 2 < HEAD_DIM ? row[column + 2] : 0.0f, column + 3 < HEAD_DIM ? row[column + 3] : 0.0f);
}

// Operands that repeat, and whether a product of them repeats to the bit: `same_bits.rs`.

// A number from a few bits, in [-1, 1), of many magnitudes: so that sums in another order have other bits.
__device__ __forceinline__ float made_up(u32 bits) {
    bits = (bits ^ (bits >> 16)) * 0x7feb352du;
    bits = (bits ^ (bits >> 15)) * 0x846ca68bu;
    bits ^= bits >> 16;
    return (float)((int)bits >> 8) * (1.0f / 8388608.0f) / (float)(1u << (bits & 7u));
}

// Row r is row (first + r) % period of made-up numbers; one block a row.
extern "C" __global__ void repeat_rows(u32 seed, u32 kind, u32 width, u32 first, u32 period, void* rows) {
    u32 row = (first + blockIdx.x) % period;
    for (u32 column = threadIdx.x; column < width; column += blockDim.x) {
        float value = made_up(seed + row * width + column);
        u64 at = (u64)blockIdx.x * width + column;
        if (kind == STORED_F32) ((float*)rows)[at] = value;
        else ((u16*)rows)[at] = (u16)(kind == STORED_F16 ? f16_pair(value, 0.0f) : bf16_pair(value, 0.0f));
    }
}

// Sets `differs` where row r is not row (first + r) % period of `known`; `words` a row, one block each.
extern "C" __global__ void compare_rows(const u32* rows, u32 words, u32 first, u32 period, const u32* known, u32* differs) {
    const u32* own = rows + (u64)blockIdx.x * words;
    const u32* same = known + (u64)((first + blockIdx.x) % period) * words;
    bool is_other = false;
    for (u32 word = threadIdx.x; word < words; word += blockDim.x) is_other |= own[word] != same[word];
    if (is_other) *differs = 1;
}

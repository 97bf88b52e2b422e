// Operands of products: what a row of floats becomes before it is multiplied.
//
// OPERAND says which: 0 the floats themselves, 1 bfloat16, 2 half precision, 3 two bfloat16 terms, laid out as [high | low | high], so
// that one product with [high | high | low] sums the three larger products of the terms. Each part is `padded` numbers long, a multiple
// of 8; the padding is zero.

#define OPERAND_FLOATS 0
#define OPERAND_BF16 1
#define OPERAND_F16 2
#define OPERAND_SPLIT 3

#if OPERAND == OPERAND_SPLIT
#define OPERAND_PARTS 3
#else
#define OPERAND_PARTS 1
#endif

__device__ __forceinline__ u32 operand_pair(float low, float high) {
#if OPERAND == OPERAND_F16
    return f16_pair(low, high);
#else
    return bf16_pair(low, high);
#endif
}

// A 16-bit number of an operand.
__device__ __forceinline__ float half_value(u32 bits) {
#if OPERAND == OPERAND_F16
    return f16_to_float(bits);
#else
    return bf16_to_float(bits);
#endif
}

// Four neighbours of an operand of one part.
__device__ __forceinline__ float4 half_values4(uint2 pairs) {
    return make_float4(half_value(pairs.x & 0xffff), half_value(pairs.x >> 16), half_value(pairs.y & 0xffff), half_value(pairs.y >> 16));
}

__device__ __forceinline__ uint2 half_pairs4(float4 value) {
    return make_uint2(operand_pair(value.x, value.y), operand_pair(value.z, value.w));
}

// What bfloat16 leaves of two floats.
__device__ __forceinline__ u32 rest_pair(float low, float high, u32 rounded) {
    return bf16_pair(low - bf16_to_float(rounded & 0xffff), high - bf16_to_float(rounded >> 16));
}

// Four neighbours of a row, from a column that is a multiple of 4.
__device__ __forceinline__ void store_operand4(u16* row, u32 padded, u32 column, float4 value) {
#if OPERAND != OPERAND_FLOATS
    uint2 high = half_pairs4(value);
    *(uint2*)(row + column) = high;
#if OPERAND == OPERAND_SPLIT
    *(uint2*)(row + padded + column) = make_uint2(rest_pair(value.x, value.y, high.x), rest_pair(value.z, value.w, high.y));
    *(uint2*)(row + 2 * padded + column) = high;
#endif
#endif
}

// Two neighbours of a row, from an even column.
__device__ __forceinline__ void store_operand2(u16* row, u32 padded, u32 column, float first, float second) {
#if OPERAND != OPERAND_FLOATS
    u32 high = operand_pair(first, second);
    *(u32*)(row + column) = high;
#if OPERAND == OPERAND_SPLIT
    *(u32*)(row + padded + column) = rest_pair(first, second, high);
    *(u32*)(row + 2 * padded + column) = high;
#endif
#endif
}

// One number of a row.
__device__ __forceinline__ void store_operand1(u16* row, u32 padded, u32 column, float value) {
#if OPERAND != OPERAND_FLOATS
    u32 high = operand_pair(value, 0.0f);
    row[column] = (u16)high;
#if OPERAND == OPERAND_SPLIT
    row[padded + column] = (u16)rest_pair(value, 0.0f, high);
    row[2 * padded + column] = (u16)high;
#endif
#endif
}

// The number that an operand stands for.
__device__ __forceinline__ float operand_value(const u16* row, u32 padded, u32 column) {
#if OPERAND == OPERAND_SPLIT
    return bf16_to_float(row[column]) + bf16_to_float(row[padded + column]);
#else
    return half_value(row[column]);
#endif
}

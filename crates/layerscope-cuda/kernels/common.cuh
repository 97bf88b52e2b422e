// Stands before every source. No headers: NVRTC comes without them.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define FULL_WARP 0xffffffffu
#define INFINITY_F __int_as_float(0x7f800000)

// Kinds of stored numbers.
#define STORED_F32 0
#define STORED_F16 1
#define STORED_BF16 2

// Two floats to two 16-bit numbers in one word, rounded to nearest even; `low` comes first in memory.
__device__ __forceinline__ u32 bf16_pair(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ u32 f16_pair(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ float bf16_to_float(u32 bits) {
    return __uint_as_float(bits << 16);
}

__device__ __forceinline__ float f16_to_float(u32 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)bits));
    return value;
}

__device__ __forceinline__ float round_to_bf16(float value) {
    return bf16_to_float(bf16_pair(value, 0.0f) & 0xffff);
}

// A stored number of any kind.
__device__ __forceinline__ float stored_number(const void* numbers, u64 at, u32 kind) {
    if (kind == STORED_F32) return ((const float*)numbers)[at];
    u32 bits = ((const u16*)numbers)[at];
    return kind == STORED_F16 ? f16_to_float(bits) : bf16_to_float(bits);
}

// The sum over a warp, the same bits in every lane.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance >>= 1) value += __shfl_xor_sync(FULL_WARP, value, distance);
    return value;
}

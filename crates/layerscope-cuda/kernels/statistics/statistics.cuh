// Stands before the sources of the statistics.

typedef unsigned char u8;

#define WARP 32

// Components of a block, one a thread, and its warps.
#define STRIP 128
#define STRIP_WARPS (STRIP / WARP)

// What a counted row is. Rows that do not count have no kind.
#define TYPICAL 0
#define MASSIVE 1
#define BAD 2

// The words of `flags`; zeros if nothing was seen yet. The first row that is not finite is complemented: the largest word names it.
#define BAD_ROWS 0
#define FIRST_BAD 1
#define MASSIVE_ROWS 2
#define FOUND_ROWS 3

// A row that is massive here or was so at the point before, as one word: the row and two marks.
#define MASSIVE_HERE 0x80000000u
#define MASSIVE_BEFORE 0x40000000u
#define ROW_BITS 0x3fffffffu

// The sum over a warp, the same bits in every lane.
__device__ __forceinline__ double warp_sum(double value) {
    for (int step = WARP / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

// The mean of two means, of n_a and n_b things.
__device__ __forceinline__ double mean_of_means(double a, double n_a, double b, double n_b) {
    return n_b == 0.0 ? a : a + (b - a) * (n_b / (n_a + n_b));
}

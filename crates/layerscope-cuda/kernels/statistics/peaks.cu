// Components that stand out of their states: |a| > 100 and |a| > 1,000 times the median |a| of the state (Sun et al. 2024).

#define LARGE 100.0f
#define ABOVE_MEDIAN 1000.0

// The numbers of `counts`.
#define COMPONENTS 0
#define STATES 1
#define TYPICAL_COMPONENTS 2
#define TYPICAL_STATES 3
#define COUNTS 4

// How many sizes of a state are not above this one, by one warp. Sizes are compared as words: without signs they are in the same order.
__device__ __forceinline__ u32 sizes_up_to(const float* state, u32 dim, u32 bits) {
    u32 count = 0;
    for (u32 column = threadIdx.x % WARP; column < dim; column += WARP) count += (__float_as_uint(state[column]) & 0x7fffffffu) <= bits ? 1 : 0;
    return __reduce_add_sync(FULL_WARP, count);
}

// The size at this place in their ascending order.
__device__ float size_at(const float* state, u32 dim, u32 place) {
    u32 low = 0, high = 0x7f800000u;
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (sizes_up_to(state, dim, middle) > place) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return __uint_as_float(low);
}

// Massive components of the counted rows, one warp a row. Counters are integers, so that their order does not matter.
extern "C" __global__ void row_peaks(const float* states, u32 dim, const u32* counted, u32 count, const double* norms, const u8* kinds,
                                     u32* counts) {
    u32 place = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (place >= count) return;
    u32 row = counted[place], peaks = 0;
    if (kinds[row] == BAD) return;
    const float* state = states + (size_t)row * dim;
    // No component is larger than the norm.
    if (norms[row] > (double)LARGE && sizes_up_to(state, dim, __float_as_uint(LARGE)) < dim) {
        double upper = (double)size_at(state, dim, dim / 2);
        double median = dim % 2 == 0 ? 0.5 * ((double)size_at(state, dim, dim / 2 - 1) + upper) : upper;
        for (u32 column = lane; column < dim; column += WARP) {
            float size = fabsf(state[column]);
            peaks += size > LARGE && (double)size > ABOVE_MEDIAN * median ? 1 : 0;
        }
        peaks = __reduce_add_sync(FULL_WARP, peaks);
    }
    if (lane > 0) return;
    bool is_typical = kinds[row] == TYPICAL;
    atomicAdd(counts + STATES, 1u);
    if (is_typical) atomicAdd(counts + TYPICAL_STATES, 1u);
    if (peaks == 0) return;
    atomicAdd(counts + COMPONENTS, peaks);
    if (is_typical) atomicAdd(counts + TYPICAL_COMPONENTS, peaks);
}

// They enter the resident ones.
extern "C" __global__ void enter_peaks(const u32* counts, u64* resident) {
    if (threadIdx.x < COUNTS) resident[threadIdx.x] += (u64)counts[threadIdx.x];
}

// How similar the states of one sequence are to their mean: u . s / (k ||s||), with s the sum of its states, u the sum of their unit
// vectors and k the number of non-zero ones; of all states and of the typical ones. In f64 and in a fixed order.
//
// A sequence is cut into pieces. One of a single piece is done at once; the sums of the others wait and are joined, in order.

// Stands for the slot of a sequence of one piece.
#define WHOLE 0xffffffffu

// s and u of all states and of the typical ones; then u . s and ||s||^2 of both.
#define SUMS 4
#define DOTS 4

// Rows that are fetched together.
#define AHEAD 8

__device__ __forceinline__ void write_dots(const double sums[SUMS], bool is_inside, double* dots) {
    double own[DOTS] = {sums[0] * sums[1], sums[0] * sums[0], sums[2] * sums[3], sums[2] * sums[2]};
    for (int at = 0; at < DOTS; ++at) {
        double sum = warp_sum(is_inside ? own[at] : 0.0);
        if (threadIdx.x % WARP == 0) dots[at] = sum;
    }
}

// One piece of a sequence, one strip of components. A piece is (first, end, sequence, slot of its sums, or WHOLE), in places among the
// counted rows.
extern "C" __global__ void __launch_bounds__(STRIP)
    sequence_pieces(const float* states, u32 dim, const u32* counted, const uint4* pieces, const double* inverses, const u8* kinds,
                    double* piece_sums, double* dots) {
    uint4 piece = pieces[blockIdx.x];
    u32 own = blockIdx.y * STRIP + threadIdx.x, column = own < dim ? own : dim - 1;
    double sums[SUMS] = {0.0, 0.0, 0.0, 0.0};
    for (u32 first = piece.x; first < piece.y; first += AHEAD) {
        float ahead[AHEAD];
#pragma unroll
        for (u32 at = 0; at < AHEAD; ++at) ahead[at] = states[(size_t)counted[min(first + at, piece.y - 1)] * dim + column];
#pragma unroll
        for (u32 at = 0; at < AHEAD; ++at) {
            if (first + at >= piece.y) break;
            u32 row = counted[first + at];
            u8 kind = kinds[row];
            if (kind == BAD) continue;
            double x = (double)ahead[at], inverse = inverses[row];
            sums[0] += x;
            sums[1] = fma(x, inverse, sums[1]);
            if (kind != TYPICAL) continue;
            sums[2] += x;
            sums[3] = fma(x, inverse, sums[3]);
        }
    }
    u32 warps = gridDim.y * STRIP_WARPS, warp = blockIdx.y * STRIP_WARPS + threadIdx.x / WARP;
    if (piece.w == WHOLE) {
        write_dots(sums, own < dim, dots + ((size_t)piece.z * warps + warp) * DOTS);
    } else if (own < dim) {
        for (u32 at = 0; at < SUMS; ++at) piece_sums[((size_t)piece.w * SUMS + at) * dim + column] = sums[at];
    }
}

// The sequences of several pieces: (sequence, first slot, one past the last, 0) for each.
extern "C" __global__ void __launch_bounds__(STRIP)
    sequence_joins(u32 dim, const uint4* joins, const double* piece_sums, double* dots) {
    uint4 join = joins[blockIdx.x];
    u32 own = blockIdx.y * STRIP + threadIdx.x, column = own < dim ? own : dim - 1;
    double sums[SUMS] = {0.0, 0.0, 0.0, 0.0};
#pragma unroll 4
    for (u32 slot = join.y; slot < join.z; ++slot) {
        for (u32 at = 0; at < SUMS; ++at) sums[at] += piece_sums[((size_t)slot * SUMS + at) * dim + column];
    }
    u32 warps = gridDim.y * STRIP_WARPS, warp = blockIdx.y * STRIP_WARPS + threadIdx.x / WARP;
    write_dots(sums, own < dim, dots + ((size_t)join.x * warps + warp) * DOTS);
}

// A sequence has one if it has two non-zero states and a mean that is not zero.
__device__ __forceinline__ double similarity(double across, double square, u32 nonzero, bool* has_one) {
    *has_one = nonzero >= 2 && square > 0.0;
    return *has_one ? across / ((double)nonzero * sqrt(square)) : 0.0;
}

// The similarity of every sequence, one warp each, and 1 where it has one: (all, 1, typical, 1). A sequence is (first, end) among the
// counted rows.
extern "C" __global__ void sequence_similarities(const u32* counted, const u32* bounds, u32 count, const double* inverses, const u8* kinds,
                                                 const double* dots, u32 warps, double* similarities) {
    u32 sequence = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (sequence >= count) return;
    u32 all = 0, typical = 0;
    for (u32 place = bounds[2 * sequence] + lane; place < bounds[2 * sequence + 1]; place += WARP) {
        u32 row = counted[place];
        if (kinds[row] == BAD || !(inverses[row] > 0.0)) continue;
        ++all;
        typical += kinds[row] == TYPICAL ? 1 : 0;
    }
    all = __reduce_add_sync(0xffffffffu, all);
    typical = __reduce_add_sync(0xffffffffu, typical);
    double own[DOTS] = {0.0, 0.0, 0.0, 0.0};
    for (u32 warp = lane; warp < warps; warp += WARP) {
        for (u32 at = 0; at < DOTS; ++at) own[at] += dots[((size_t)sequence * warps + warp) * DOTS + at];
    }
    for (u32 at = 0; at < DOTS; ++at) own[at] = warp_sum(own[at]);
    if (lane > 0) return;
    bool has_all, has_typical;
    double* out = similarities + 4 * (size_t)sequence;
    out[0] = similarity(own[0], own[1], all, &has_all);
    out[1] = has_all ? 1.0 : 0.0;
    out[2] = similarity(own[2], own[3], typical, &has_typical);
    out[3] = has_typical ? 1.0 : 0.0;
}

// Measures of a sequence: how many there can be.
#define MEASURES 4

// The mean over the sequences of the batch enters the resident one. Every sequence has (value, 1) for each of so many measures, or (0, 0)
// where it has no value. One block.
extern "C" __global__ void sequence_means(const double* values, u32 count, u32 measures, u64* resident_n, double* resident_mean) {
    __shared__ double of_warp[WARP][2 * MEASURES];
    double own[2 * MEASURES] = {};
    for (u32 sequence = threadIdx.x; sequence < count; sequence += blockDim.x) {
#pragma unroll
        for (u32 at = 0; at < 2 * MEASURES; ++at) own[at] += at < 2 * measures ? values[2 * measures * (size_t)sequence + at] : 0.0;
    }
#pragma unroll
    for (u32 at = 0; at < 2 * MEASURES; ++at) {
        double sum = warp_sum(own[at]);
        if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP][at] = sum;
    }
    __syncthreads();
    if (threadIdx.x >= measures) return;
    double sum = 0.0, n = 0.0;
    for (u32 warp = 0; warp < blockDim.x / WARP; ++warp) {
        sum += of_warp[warp][2 * threadIdx.x];
        n += of_warp[warp][2 * threadIdx.x + 1];
    }
    if (n == 0.0) return;
    resident_mean[threadIdx.x] = mean_of_means(resident_mean[threadIdx.x], (double)resident_n[threadIdx.x], sum / n, n);
    resident_n[threadIdx.x] += (u64)n;
}

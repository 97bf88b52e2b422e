// What sequences look like: matrix entropy (Skean et al. 2025) and curvature (Hosseini & Fedorenko 2023), of all states and of the
// typical ones, in f64 and in a fixed order. A block has a sequence at a time, and memory of its own for it.

#define THREADS 128
#define WARPS (THREADS / WARP)

// States that a sequence must have, and the largest matrix that lies in shared memory.
#define MIN_STATES 3
#define SMALL 64

// Products are computed in tiles of so many rows and columns: blocks of eight by eight, as the tensor cores have them. A lane has four inner
// indices at a time, a warp sixteen.
#define DOWN 4
#define ACROSS 2
#define BLOCK 8
#define STEPS 4
#define INNER 16

// Deviations below this share of the largest norm are rounding; so are eigenvalues below this share of the largest.
#define ROUNDING 1e-12
#define NEGLIGIBLE 1e-12

// Squares below this are taken for zero: their own squares would not be normal numbers.
#define TINY 1e-140

// Sturm's polynomials are brought back to numbers near one once in so many.
#define OFTEN 8
#define HUGE 1e100

// A polynomial that is zero becomes so much of the one before, with the other sign.
#define NEXT_TO_ZERO 1e-30

// Bits of an eigenvalue, as a share of the trace.
#define BITS 54

// What a block works with. All but the first two have a number for every state.
struct Space {
    double* gram;
    double* mean;
    double* inverse;
    double* diagonal;
    double* square;
    double* reflector;
    double* product;
    u32* rows;
};

__device__ __forceinline__ u32 own_lane() {
    return threadIdx.x % WARP;
}

__device__ __forceinline__ u32 own_warp() {
    return threadIdx.x / WARP;
}

// The counted rows of a sequence, without those that are not finite and, if only typical ones are wanted, the massive ones. Returns how
// many there are.
__device__ u32 list_rows(const u32* counted, u32 first, u32 end, const u8* kinds, bool only_typical, u32* rows) {
    __shared__ u32 listed;
    __syncthreads();
    if (own_warp() == 0) {
        u32 done = 0;
        for (u32 place = first; place < end; place += WARP) {
            u32 row = counted[min(place + own_lane(), end - 1)];
            u8 kind = kinds[row];
            bool enters = place + own_lane() < end && (kind == TYPICAL || (kind == MASSIVE && !only_typical));
            u32 among = __ballot_sync(FULL_WARP, enters);
            if (enters) rows[done + __popc(among & ((1u << own_lane()) - 1u))] = row;
            done += __popc(among);
        }
        if (own_lane() == 0) listed = done;
    }
    __syncthreads();
    return listed;
}

// The mean of the rows, and 1 / ||x - mean|| of each, 0 where that is rounding. Returns how many are not zero.
__device__ u32 centre(const float* states, u32 dim, u32 n, const double* norms, Space space) {
    for (u32 column = threadIdx.x; column < dim; column += THREADS) {
        double sum = 0.0;
#pragma unroll 8
        for (u32 at = 0; at < n; ++at) sum += (double)states[(size_t)space.rows[at] * dim + column];
        space.mean[column] = sum / (double)n;
    }
    double largest = 0.0;
    for (u32 at = own_lane(); at < n; at += WARP) largest = max(largest, norms[space.rows[at]]);
    for (int step = WARP / 2; step > 0; step /= 2) largest = max(largest, __shfl_xor_sync(FULL_WARP, largest, step));
    __syncthreads();
    for (u32 at = own_warp(); at < n; at += WARPS) {
        const float* state = states + (size_t)space.rows[at] * dim;
        double sum = 0.0;
#pragma unroll 8
        for (u32 column = own_lane(); column < dim; column += WARP) {
            double deviation = (double)state[column] - space.mean[column];
            sum = fma(deviation, deviation, sum);
        }
        double norm = sqrt(warp_sum(sum));
        if (own_lane() == 0) space.inverse[at] = norm > ROUNDING * largest ? 1.0 / norm : 0.0;
    }
    __syncthreads();
    u32 kept = 0;
    for (u32 at = own_lane(); at < n; at += WARP) kept += space.inverse[at] > 0.0 ? 1 : 0;
    return __reduce_add_sync(FULL_WARP, kept);
}

// Products of eight rows with eight, four inner indices each: a lane has one number of either and two of the result.
__device__ __forceinline__ void multiply_add(double sums[2], double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(sums[0]), "+d"(sums[1]) : "d"(a), "d"(b));
}

// Deviations from the mean of a row in four components.
__device__ __forceinline__ void deviations_of_row(const float* states, u32 dim, const Space& space, u32 row, u32 first, double out[STEPS]) {
    const float* state = states + (size_t)space.rows[row] * dim + first;
    float numbers[STEPS];
    if (dim % STEPS == 0) {
        float4 four = first < dim ? *(const float4*)state : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        numbers[0] = four.x, numbers[1] = four.y, numbers[2] = four.z, numbers[3] = four.w;
    } else {
        for (u32 at = 0; at < STEPS; ++at) numbers[at] = first + at < dim ? state[at] : 0.0f;
    }
    for (u32 at = 0; at < STEPS; ++at) out[at] = first + at < dim ? (double)numbers[at] - space.mean[first + at] : 0.0;
}

// Those of a component in four rows, divided by the norms of the rows.
__device__ __forceinline__ void deviations_of_component(const float* states, u32 dim, u32 n, const Space& space, u32 column, u32 first,
                                                        double out[STEPS]) {
    for (u32 at = 0; at < STEPS; ++at) {
        u32 row = min(first + at, n - 1);
        double unit = ((double)states[(size_t)space.rows[row] * dim + column] - space.mean[column]) * space.inverse[row];
        out[at] = first + at < n ? unit : 0.0;
    }
}

// The Gram matrix of the centred unit rows or, where there are more rows than components, of their components: both have the same
// non-zero eigenvalues. Rows of zeros stay, and add eigenvalues of zero. Every warp has a part of the inner indices; their sums are added in
// the order of the warps.
__device__ void multiply(const float* states, u32 dim, u32 n, Space space) {
    __shared__ double sums[DOWN * BLOCK][ACROSS * BLOCK];
    bool by_rows = n <= dim;
    u32 side = by_rows ? n : dim, inner = by_rows ? dim : n, of_block = own_lane() / 4, of_step = own_lane() % 4;
    for (u32 down = 0; down < side; down += DOWN * BLOCK) {
        for (u32 across = down; across < side; across += ACROSS * BLOCK) {
            double own[DOWN][ACROSS][2] = {};
            for (u32 first = own_warp() * INNER; first < inner; first += WARPS * INNER) {
                double left[DOWN][STEPS], right[ACROSS][STEPS];
                auto fetch = [&](u32 outer, double* out) {
                    // What lies beyond the last is not looked at.
                    outer = min(outer + of_block, side - 1);
                    if (by_rows) {
                        deviations_of_row(states, dim, space, outer, first + STEPS * of_step, out);
                    } else {
                        deviations_of_component(states, dim, n, space, outer, first + STEPS * of_step, out);
                    }
                };
#pragma unroll
                for (u32 q = 0; q < ACROSS; ++q) {
                    if (across + q * BLOCK < side) fetch(across + q * BLOCK, right[q]);
                }
#pragma unroll
                for (u32 p = 0; p < DOWN; ++p) {
                    if (down + p * BLOCK >= side) continue;
                    fetch(down + p * BLOCK, left[p]);
#pragma unroll
                    for (u32 q = 0; q < ACROSS; ++q) {
                        if (across + q * BLOCK >= side) continue;
#pragma unroll
                        for (u32 step = 0; step < STEPS; ++step) multiply_add(own[p][q], left[p][step], right[q][step]);
                    }
                }
            }
            for (u32 warp = 0; warp < WARPS; ++warp) {
                __syncthreads();
                if (own_warp() != warp) continue;
#pragma unroll
                for (u32 p = 0; p < DOWN; ++p) {
#pragma unroll
                    for (u32 q = 0; q < ACROSS; ++q) {
                        double* sum = &sums[p * BLOCK + of_block][q * BLOCK + 2 * of_step];
                        sum[0] = warp == 0 ? own[p][q][0] : sum[0] + own[p][q][0];
                        sum[1] = warp == 0 ? own[p][q][1] : sum[1] + own[p][q][1];
                    }
                }
            }
            __syncthreads();
            for (u32 place = threadIdx.x; place < DOWN * BLOCK * ACROSS * BLOCK; place += THREADS) {
                u32 i = place / (ACROSS * BLOCK), j = place % (ACROSS * BLOCK), row = down + i, column = across + j;
                if (row > column || column >= side) continue;
                double product = by_rows ? sums[i][j] * space.inverse[row] * space.inverse[column] : sums[i][j];
                space.gram[(size_t)row * side + column] = product;
                space.gram[(size_t)column * side + row] = product;
            }
        }
    }
    __syncthreads();
}

// A symmetric matrix becomes tridiagonal by Householder's reflections (Golub & Van Loan, Matrix Computations, 8.3.1): its diagonal and the
// squares beside it. The matrix is lost.
__device__ void make_tridiagonal(u32 side, Space space) {
    double* v = space.reflector;
    double* p = space.product;
    for (u32 k = 0; k + 1 < side; ++k) {
        const double* row_k = space.gram + (size_t)k * side;
        double sum = 0.0, first = row_k[k + 1];
        for (u32 at = k + 2 + own_lane(); at < side; at += WARP) sum = fma(row_k[at], row_k[at], sum);
        sum = warp_sum(sum);
        if (threadIdx.x == 0) {
            space.diagonal[k] = row_k[k];
            space.square[k] = fma(first, first, sum);
        }
        if (sum < TINY) continue;
        double length = sqrt(fma(first, first, sum));
        double pivot = first <= 0.0 ? first - length : -sum / (first + length);
        double scale = 2.0 * pivot * pivot / fma(pivot, pivot, sum);
        for (u32 at = k + 1 + threadIdx.x; at < side; at += THREADS) v[at] = at == k + 1 ? 1.0 : row_k[at] / pivot;
        __syncthreads();
        for (u32 row = k + 1 + own_warp(); row < side; row += WARPS) {
            double dot = 0.0;
            for (u32 at = k + 1 + own_lane(); at < side; at += WARP) dot = fma(space.gram[(size_t)row * side + at], v[at], dot);
            dot = warp_sum(dot);
            if (own_lane() == 0) p[row] = scale * dot;
        }
        __syncthreads();
        double half = 0.0;
        for (u32 at = k + 1 + own_lane(); at < side; at += WARP) half = fma(p[at], v[at], half);
        half = 0.5 * scale * warp_sum(half);
        for (u32 row = k + 1 + own_warp(); row < side; row += WARPS) {
            double own_v = v[row], own_w = p[row] - half * v[row];
            for (u32 at = k + 1 + own_lane(); at < side; at += WARP) {
                double w = p[at] - half * v[at];
                space.gram[(size_t)row * side + at] -= own_v * w + own_w * v[at];
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        space.diagonal[side - 1] = space.gram[(size_t)side * side - 1];
        space.square[side - 1] = 0.0;
    }
    __syncthreads();
}

// How many eigenvalues of the tridiagonal matrix are less than x: the changes of sign in Sturm's sequence of polynomials.
__device__ __forceinline__ u32 eigenvalues_below(double x, u32 side, const Space& space) {
    u32 count = 0;
    double before = 0.0, last = 1.0, square = 0.0;
    for (u32 first = 0; first < side; first += OFTEN) {
#pragma unroll
        for (u32 ahead = 0; ahead < OFTEN; ++ahead) {
            u32 at = first + ahead;
            if (at >= side) break;
            double next = fma(space.diagonal[at] - x, last, -square * before);
            if (next == 0.0) next = -NEXT_TO_ZERO * last;
            count += (next < 0.0) != (last < 0.0) ? 1 : 0;
            before = last;
            last = next;
            square = space.square[at];
        }
        double size = max(fabs(before), fabs(last)), scale = size > HUGE ? 1.0 / HUGE : size < 1.0 / HUGE ? HUGE : 1.0;
        before *= scale;
        last *= scale;
    }
    return count;
}

// The eigenvalues of the tridiagonal matrix in [0, largest], ascending, into `reflector`. A few threads together look for each, and try
// several places at once.
__device__ void find_eigenvalues(u32 side, double largest, Space space) {
    u32 together = 1, bits = 0;
    while (together < WARP && 2 * together * side <= THREADS) together *= 2, ++bits;
    bits = max(bits, 1u);
    u32 rounds = (BITS + bits - 1) / bits, own = threadIdx.x % together, leader = own_lane() - own;
    u32 group = together == WARP ? FULL_WARP : ((1u << together) - 1u) << leader;
    for (u32 first = 0; first < side; first += THREADS / together) {
        u32 wanted = first + threadIdx.x / together, known = min(wanted, side - 1);
        double low = 0.0, step = largest / (double)(together + 1);
        for (u32 round = 0; round < rounds; ++round) {
            bool is_above = eigenvalues_below(low + step * (double)(own + 1), side, space) > known;
            u32 above = __ballot_sync(FULL_WARP, is_above) & group;
            // It lies before the first place above it.
            u32 steps = above ? __ffs(above) - 1 - leader : together;
            low += step * (double)steps;
            step /= (double)(together + 1);
        }
        if (wanted < side && own == 0) space.reflector[wanted] = low + 0.5 * step * (double)(together + 1);
    }
    __syncthreads();
}

// Von Neumann entropy of the Gram matrix of centred unit rows, divided by its trace, over ln min(n, dim). False where all rows are equal,
// or with one component.
__device__ bool matrix_entropy(const float* states, u32 dim, u32 n, const double* norms, Space space, double* entropy) {
    u32 kept = centre(states, dim, n, norms, space), side = min(n, dim);
    if (kept == 0 || dim == 1) return false;
    multiply(states, dim, n, space);
    make_tridiagonal(side, space);
    double trace = (double)kept;
    find_eigenvalues(side, trace, space);
    double least = NEGLIGIBLE * space.reflector[side - 1], sum = 0.0;
    for (u32 at = own_lane(); at < side; at += WARP) {
        double share = space.reflector[at] > least ? space.reflector[at] / trace : 0.0;
        if (share > 0.0) sum -= share * log(share);
    }
    *entropy = warp_sum(sum) / log((double)side);
    return true;
}

// The mean angle between successive steps; steps of length zero are left out. With unit steps a and b the angle is
// 2 atan2(||a - b||, ||a + b||): good to the last digit even where the cosine is near 1 (Kahan). False with fewer than two steps.
__device__ bool mean_curvature(const float* states, u32 dim, u32 n, Space space, double* curvature) {
    double* angles = space.product;
    auto row = [&](u32 at) { return states + (size_t)space.rows[at] * dim; };
    __syncthreads();
    for (u32 step = own_warp(); step + 1 < n; step += WARPS) {
        const float *from = row(step), *to = row(step + 1);
        double sum = 0.0;
#pragma unroll 8
        for (u32 column = own_lane(); column < dim; column += WARP) {
            double way = (double)to[column] - (double)from[column];
            sum = fma(way, way, sum);
        }
        sum = warp_sum(sum);
        if (own_lane() == 0) space.inverse[step] = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
    }
    __syncthreads();
    for (u32 step = own_warp(); step + 1 < n; step += WARPS) {
        u32 last = step;
        while (last > 0 && space.inverse[last - 1] == 0.0) --last;
        // Less than zero stands for none.
        double angle = -1.0;
        if (last > 0 && space.inverse[step] > 0.0) {
            const float *a_from = row(last - 1), *a_to = row(last), *b_from = row(step), *b_to = row(step + 1);
            double a_inverse = space.inverse[last - 1], b_inverse = space.inverse[step], apart = 0.0, together = 0.0;
#pragma unroll 4
            for (u32 column = own_lane(); column < dim; column += WARP) {
                double a = ((double)a_to[column] - (double)a_from[column]) * a_inverse;
                double b = ((double)b_to[column] - (double)b_from[column]) * b_inverse;
                apart = fma(a - b, a - b, apart);
                together = fma(a + b, a + b, together);
            }
            angle = 2.0 * atan2(sqrt(warp_sum(apart)), sqrt(warp_sum(together)));
        }
        if (own_lane() == 0) angles[step] = angle;
    }
    __syncthreads();
    double sum = 0.0;
    u32 count = 0;
    for (u32 step = own_lane(); step + 1 < n; step += WARP) {
        if (angles[step] < 0.0) continue;
        sum += angles[step];
        ++count;
    }
    count = __reduce_add_sync(FULL_WARP, count);
    *curvature = warp_sum(sum) / (double)count;
    return count > 0;
}

// The shape of every sequence, and 1 where it has one: (entropy, 1, curvature, 1) of all states and of the typical ones. A sequence is
// (first, end) among the counted rows; none has more than `longest`. Blocks take sequences in turns. Memory of a block: a mean, six
// numbers a state, and a matrix that is not small.
extern "C" __global__ void __launch_bounds__(THREADS)
    sequence_shapes(const float* states, u32 dim, const u32* counted, const u32* bounds, u32 count, const u8* kinds, const double* norms,
                    u32 longest, double* memory, u64 memory_of_block, double* shapes) {
    __shared__ double small_gram[SMALL * SMALL];
    double* own = memory + memory_of_block * blockIdx.x;
    double* of_states = own + dim;
    Space space = {small_gram, own, of_states, of_states + longest, of_states + 2 * longest, of_states + 3 * longest, of_states + 4 * longest,
                   (u32*)(of_states + 5 * longest)};
    double* large_gram = of_states + 6 * longest;
    for (u32 sequence = blockIdx.x; sequence < count; sequence += gridDim.x) {
        double* out = shapes + 8 * (size_t)sequence;
        u32 first = bounds[2 * sequence], end = bounds[2 * sequence + 1], of_all = 0;
        for (u32 typical = 0; typical < 2; ++typical) {
            u32 n = list_rows(counted, first, end, kinds, typical == 1, space.rows);
            if (typical == 1 && n == of_all) {
                // Nothing is massive: it has been measured.
                if (threadIdx.x < 4) out[4 + threadIdx.x] = out[threadIdx.x];
                continue;
            }
            of_all = n;
            space.gram = min(n, dim) <= SMALL ? small_gram : large_gram;
            double entropy = 0.0, curvature = 0.0;
            bool has_entropy = n >= MIN_STATES && matrix_entropy(states, dim, n, norms, space, &entropy);
            bool has_curvature = n >= MIN_STATES && mean_curvature(states, dim, n, space, &curvature);
            if (threadIdx.x < 4) {
                double values[4] = {has_entropy ? entropy : 0.0, has_entropy ? 1.0 : 0.0, has_curvature ? curvature : 0.0, has_curvature ? 1.0 : 0.0};
                out[4 * typical + threadIdx.x] = values[threadIdx.x];
            }
        }
    }
}

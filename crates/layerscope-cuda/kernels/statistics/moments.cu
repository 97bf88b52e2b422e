// Moments of groups and of all rows, in f64 and in a fixed order, without atomics: two runs give the same bits.
//
// The counted rows, sorted by group, are cut into tiles. A tile's rows of one group are a piece. A group whose rows lie in one tile
// enters its resident moments there; the pieces of a group that crosses tiles wait in `pieces` and enter together, in order. Moments
// of all rows are taken tile by tile and folded in a tree of fixed shape.
//
// Rows enter by moments about one of them and merge by Chan, Golub & LeVeque's formula: M2 = M2_a + M2_b + delta^2 n_a n_b / (n_a + n_b).

// Rows of a tile, and parts that are folded into one.
#define TILE 64
#define FAN 16

// Pieces whose groups are fetched together: groups are scattered over memory.
#define FETCHED 8

// What a group's rows of this batch weigh: a row of `weights`.
#define EACH 0        // 1 / n_b
#define SHARE 1       // n_b / (n_a + n_b)
#define CROSS 2       // n_a n_b / (n_a + n_b)
#define EACH_UNIT 3   // 1 / (non-zero rows that enter)
#define UNIT_SHARE 4  // their share; 0 if there are none
#define BEFORE 5      // n_a
#define NONZERO_BEFORE 6
#define ENTERING 7    // n_b
#define MEAN_NORM 8   // of the rows that enter
#define WEIGHTS 9
// The first of them are all that tiles need.
#define USED_WEIGHTS 5

// The vectors of a part of all rows, and of the resident corpus.
#define MEAN 0
#define M2 1
#define SQUARE 2
#define UNIT 3
#define UNIT_SQUARE 4
#define WITHIN 5
#define VECTORS 6
// Those of a chosen group are the first three. A group that is not chosen has no place among them.
#define CHOSEN_VECTORS 3
#define NOT_CHOSEN 0xffffffffu

// The numbers of a part of all rows: n, non-zero rows, and the sum of norms.
#define NUMBERS 3

// The vectors of a piece: mean, M2 and the sum of unit vectors. Its numbers: n and non-zero rows.
#define PIECE_VECTORS 3

// Moments of one component of a few rows about the first of them.
struct Sums {
    double origin, deviation, square, unit;
    u32 n, nonzero;

    __device__ __forceinline__ void clear() {
        origin = deviation = square = unit = 0.0;
        n = nonzero = 0;
    }

    __device__ __forceinline__ void add(double x, double inverse) {
        if (n == 0) origin = x;
        double moved = x - origin;
        deviation += moved;
        square = fma(moved, moved, square);
        unit = fma(x, inverse, unit);
        ++n;
        nonzero += inverse > 0.0 ? 1 : 0;
    }

    // The origin is one of the rows: M2 is at least 1 / n of the larger term of the difference.
    __device__ __forceinline__ double mean(double each) const { return origin + deviation * each; }
    __device__ __forceinline__ double m2(double each) const { return fmax(square - deviation * (deviation * each), 0.0); }
    __device__ __forceinline__ double mean_square(double each) const {
        return fmax(square * each + origin * (2.0 * deviation * each + origin), 0.0);
    }
};

// One component of a chosen group. Its mean square follows from the others: E x^2 = M2 / n + (E x)^2.
struct ChosenSums {
    double n, mean, m2, square;

    __device__ __forceinline__ void load(double before, const double* vectors, u32 dim) {
        n = before, mean = vectors[MEAN * dim], m2 = vectors[M2 * dim], square = vectors[SQUARE * dim];
    }

    __device__ __forceinline__ void join(double entering, double new_mean, double new_m2) {
        double share = entering / (n + entering), delta = new_mean - mean;
        m2 += new_m2 + delta * delta * (n * share);
        mean += delta * share;
        square += (fma(new_mean, new_mean, new_m2 / entering) - square) * share;
        n += entering;
    }

    __device__ __forceinline__ void store(double* vectors, u32 dim) const {
        vectors[MEAN * dim] = mean, vectors[M2 * dim] = m2, vectors[SQUARE * dim] = square;
    }
};

// The numbers of every group of the batch enter, and what its vectors will need is noted: one warp a group. A segment is
// (group, first, end) in the order of the rows.
extern "C" __global__ void group_numbers(const u32* order, const u32* segments, u32 count, const double* squares, const double* norms,
                                         const double* inverses, const u8* kinds, u32 keeps_units, u64* group_n, u64* group_nonzero,
                                         double* group_square, double* group_norm, double* weights) {
    u32 segment = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (segment >= count) return;
    u32 group = segments[3 * segment], first = segments[3 * segment + 1], end = segments[3 * segment + 2];
    double n = 0.0, nonzero = 0.0, square = 0.0, norm = 0.0;
    // Without branches: so the loads of several rows are on their way at once. The largest group has a warp alone.
#pragma unroll 4
    for (u32 place = first + lane; place < end; place += WARP) {
        u32 row = order[place];
        bool is_typical = kinds[row] == TYPICAL;
        double inverse = inverses[row], own_square = squares[row], own_norm = norms[row];
        n += is_typical ? 1.0 : 0.0;
        nonzero += is_typical && inverse > 0.0 ? 1.0 : 0.0;
        square += is_typical ? own_square : 0.0;
        norm += is_typical ? own_norm : 0.0;
    }
    n = warp_sum(n);
    nonzero = keeps_units ? warp_sum(nonzero) : 0.0;
    square = warp_sum(square);
    norm = warp_sum(norm);
    if (lane > 0) return;
    double before = (double)group_n[group], nonzero_before = (double)group_nonzero[group], share = n / (before + n);
    double* own = weights + (size_t)segment * WEIGHTS;
    own[EACH] = n > 0.0 ? 1.0 / n : 0.0;
    own[SHARE] = n > 0.0 ? share : 0.0;
    own[CROSS] = n > 0.0 ? before * share : 0.0;
    own[EACH_UNIT] = nonzero > 0.0 ? 1.0 / nonzero : 0.0;
    own[UNIT_SHARE] = nonzero > 0.0 ? nonzero / (nonzero_before + nonzero) : 0.0;
    own[BEFORE] = before;
    own[NONZERO_BEFORE] = nonzero_before;
    own[ENTERING] = n;
    own[MEAN_NORM] = n > 0.0 ? norm / n : 0.0;
    if (n == 0.0) return;
    group_square[group] = mean_of_means(group_square[group], before, square / n, n);
    group_norm[group] = mean_of_means(group_norm[group], before, norm / n, n);
    group_n[group] += (u64)n;
    group_nonzero[group] += (u64)nonzero;
}

// One tile of rows, one strip of components. `tile_pieces` says where the pieces of a tile begin; a piece is
// (first, end, segment, 0 for a whole segment, 1 if it continues one, 2 if it begins one that goes on). `growth` is what M2 of a
// segment grows by, a number for every warp of components. `chosen_places` has the place of every group among the chosen ones; null if
// none is chosen.
extern "C" __global__ void __launch_bounds__(STRIP)
    group_tiles(const float* states, u32 dim, const u32* order, u32 rows, const u32* tile_pieces, const uint4* pieces, const u32* segments,
                const double* norms, const double* inverses, const u8* kinds, const double* weights, double* group_mean,
                double* group_unit, double* growth, double* piece_vectors, double* piece_numbers, double* part_vectors,
                double* part_numbers, const u32* chosen_places, const u64* chosen_n, double* chosen) {
    __shared__ float tile_states[TILE][STRIP];
    __shared__ double tile_inverses[TILE];
    __shared__ u32 tile_rows[TILE];
    __shared__ u8 is_typical[TILE];
    // A piece has a row at least.
    __shared__ uint4 own_pieces[TILE];
    __shared__ u32 groups[TILE];
    __shared__ u32 places[TILE];
    __shared__ double own_weights[TILE][USED_WEIGHTS];
    u32 tile = blockIdx.x, first = tile * TILE, count = min((u32)TILE, rows - first);
    u32 thread = threadIdx.x, own = blockIdx.y * STRIP + thread;
    bool is_inside = own < dim;
    u32 column = is_inside ? own : dim - 1;
    if (thread < count) {
        u32 row = order[first + thread];
        tile_rows[thread] = row;
        tile_inverses[thread] = inverses[row];
        is_typical[thread] = kinds[row] == TYPICAL;
    }
    u32 first_piece = tile_pieces[tile], piece_count = tile_pieces[tile + 1] - first_piece;
    if (thread < piece_count) {
        uint4 piece = pieces[first_piece + thread];
        u32 group = segments[3 * piece.z];
        own_pieces[thread] = piece;
        groups[thread] = group;
        places[thread] = chosen_places ? chosen_places[group] : NOT_CHOSEN;
    }
    for (u32 at = thread; at < piece_count * USED_WEIGHTS; at += STRIP) {
        u32 piece = at / USED_WEIGHTS;
        own_weights[piece][at % USED_WEIGHTS] = weights[(size_t)pieces[first_piece + piece].z * WEIGHTS + at % USED_WEIGHTS];
    }
    __syncthreads();
    // A thread reads only what it wrote itself. All loads are on their way before the first sum needs one.
#pragma unroll 16
    for (u32 place = 0; place < count; ++place) tile_states[place][thread] = states[(size_t)tile_rows[place] * dim + column];

    u32 warps = gridDim.y * STRIP_WARPS, warp = blockIdx.y * STRIP_WARPS + thread / WARP;
    Sums all, group;
    all.clear();
    double unit_square = 0.0, within = 0.0;
    for (u32 fetched = 0; fetched < piece_count; fetched += FETCHED) {
        double means[FETCHED], units[FETCHED];
#pragma unroll
        for (u32 ahead = 0; ahead < FETCHED; ++ahead) {
            size_t place = (size_t)groups[min(fetched + ahead, piece_count - 1)] * dim + column;
            means[ahead] = group_mean[place];
            units[ahead] = group_unit ? group_unit[place] : 0.0;
        }
#pragma unroll
        for (u32 ahead = 0; ahead < FETCHED; ++ahead) {
            u32 piece_at = fetched + ahead;
            if (piece_at >= piece_count) break;
            uint4 piece = own_pieces[piece_at];
            const double* weight = own_weights[piece_at];
            size_t place_of_group = (size_t)groups[piece_at] * dim + column;
            double mean = means[ahead], unit = units[ahead];
            group.clear();
            for (u32 place = piece.x - first; place < piece.y - first; ++place) {
                if (!is_typical[place]) continue;
                double x = (double)tile_states[place][thread], inverse = tile_inverses[place], u = x * inverse;
                group.add(x, inverse);
                all.add(x, inverse);
                unit_square = fma(u, u, unit_square);
            }
            if (piece.w == 0) {
                double grown = 0.0;
                if (group.n > 0) {
                    double new_mean = group.mean(weight[EACH]), new_m2 = group.m2(weight[EACH]), delta = new_mean - mean;
                    grown = fma(delta * delta, weight[CROSS], new_m2);
                    if (is_inside) {
                        group_mean[place_of_group] = mean + delta * weight[SHARE];
                        if (group_unit) group_unit[place_of_group] = unit + (group.unit * weight[EACH_UNIT] - unit) * weight[UNIT_SHARE];
                        if (places[piece_at] != NOT_CHOSEN) {
                            double* vectors = chosen + (size_t)places[piece_at] * CHOSEN_VECTORS * dim + column;
                            ChosenSums sums;
                            sums.load((double)chosen_n[places[piece_at]], vectors, dim);
                            sums.join((double)group.n, new_mean, new_m2);
                            sums.store(vectors, dim);
                        }
                    }
                }
                within += grown;
                double sum = warp_sum(is_inside ? grown : 0.0);
                if (thread % WARP == 0) growth[(size_t)piece.z * warps + warp] = sum;
            } else {
                // The group has more rows than the piece.
                u32 slot = 2 * tile + piece.w - 1;
                double each = group.n > 0 ? 1.0 / (double)group.n : 0.0;
                double* vectors = piece_vectors + (size_t)slot * PIECE_VECTORS * dim + column;
                if (is_inside) {
                    vectors[0] = group.mean(each);
                    vectors[dim] = group.m2(each);
                    vectors[2 * dim] = group.unit;
                }
                if (own == 0) {
                    piece_numbers[2 * slot] = (double)group.n;
                    piece_numbers[2 * slot + 1] = (double)group.nonzero;
                }
            }
        }
    }
    double each = all.n > 0 ? 1.0 / (double)all.n : 0.0, each_unit = all.nonzero > 0 ? 1.0 / (double)all.nonzero : 0.0;
    double* vectors = part_vectors + (size_t)tile * VECTORS * dim + column;
    if (is_inside) {
        vectors[MEAN * dim] = all.mean(each);
        vectors[M2 * dim] = all.m2(each);
        vectors[SQUARE * dim] = all.mean_square(each);
        vectors[UNIT * dim] = all.unit * each_unit;
        vectors[UNIT_SQUARE * dim] = unit_square * each_unit;
        vectors[WITHIN * dim] = within;
    }
    if (own == 0) {
        double norm = 0.0;
        for (u32 place = 0; place < count; ++place) norm += is_typical[place] ? norms[tile_rows[place]] : 0.0;
        part_numbers[NUMBERS * tile] = (double)all.n;
        part_numbers[NUMBERS * tile + 1] = (double)all.nonzero;
        part_numbers[NUMBERS * tile + 2] = norm;
    }
}

// The groups that cross tiles: (segment, first tile, last tile, 0) for each. What they add to the sum over groups goes to their first
// tile, which no other group begins in and crosses.
extern "C" __global__ void __launch_bounds__(STRIP)
    group_crossings(const uint4* crossings, u32 dim, const u32* segments, const double* weights, const double* piece_vectors,
                    const double* piece_numbers, double* group_mean, double* group_unit, double* growth, double* part_vectors,
                    const u32* chosen_places, const u64* chosen_n, double* chosen) {
    uint4 crossing = crossings[blockIdx.x];
    u32 own = blockIdx.y * STRIP + threadIdx.x, column = own < dim ? own : dim - 1;
    u32 warps = gridDim.y * STRIP_WARPS, warp = blockIdx.y * STRIP_WARPS + threadIdx.x / WARP;
    const double* weight = weights + (size_t)crossing.x * WEIGHTS;
    double n = weight[BEFORE], nonzero = weight[NONZERO_BEFORE], grown = 0.0;
    u32 group = segments[3 * crossing.x], chosen_place = chosen_places ? chosen_places[group] : NOT_CHOSEN;
    double* chosen_vectors = chosen + (size_t)chosen_place * CHOSEN_VECTORS * dim + column;
    ChosenSums sums = {0.0, 0.0, 0.0, 0.0};
    if (chosen_place != NOT_CHOSEN) sums.load((double)chosen_n[chosen_place], chosen_vectors, dim);
    size_t place = (size_t)group * dim + column;
    double mean = group_mean[place], unit = group_unit ? group_unit[place] : 0.0;
#pragma unroll 4
    for (u32 tile = crossing.y; tile <= crossing.z; ++tile) {
        u32 slot = 2 * tile + (tile == crossing.y ? 1 : 0);
        const double* vectors = piece_vectors + (size_t)slot * PIECE_VECTORS * dim + column;
        double new_mean = vectors[0], new_m2 = vectors[dim], new_unit = vectors[2 * dim];
        double entering = piece_numbers[2 * slot], units = piece_numbers[2 * slot + 1];
        if (entering == 0.0) continue;
        double share = entering / (n + entering), delta = new_mean - mean;
        grown += fma(delta * delta, n * share, new_m2);
        mean += delta * share;
        n += entering;
        if (units > 0.0) unit += (new_unit / units - unit) * (units / (nonzero + units));
        nonzero += units;
        if (chosen_place != NOT_CHOSEN) sums.join(entering, new_mean, new_m2);
    }
    if (own < dim && chosen_place != NOT_CHOSEN) sums.store(chosen_vectors, dim);
    if (own < dim) {
        group_mean[place] = mean;
        if (group_unit) group_unit[place] = unit;
        part_vectors[((size_t)crossing.y * VECTORS + WITHIN) * dim + column] += grown;
    }
    double sum = warp_sum(own < dim ? grown : 0.0);
    if (threadIdx.x % WARP == 0) growth[(size_t)crossing.x * warps + warp] = sum;
}

// One component of the moments of some rows.
struct Part {
    double n, nonzero, mean, m2, square, unit, unit_square, within;

    __device__ __forceinline__ void join(const double* vectors, u32 dim, double entering, double units) {
        double new_mean = vectors[MEAN * dim], new_m2 = vectors[M2 * dim], new_square = vectors[SQUARE * dim];
        double new_unit = vectors[UNIT * dim], new_unit_square = vectors[UNIT_SQUARE * dim];
        within += vectors[WITHIN * dim];
        if (entering > 0.0) {
            double share = entering / (n + entering), delta = new_mean - mean;
            m2 += new_m2 + delta * delta * (n * share);
            mean += delta * share;
            square += (new_square - square) * share;
            n += entering;
        }
        if (units > 0.0) {
            double share = units / (nonzero + units);
            unit += (new_unit - unit) * share;
            unit_square += (new_unit_square - unit_square) * share;
            nonzero += units;
        }
    }

    __device__ __forceinline__ void load(const double* vectors, u32 dim) {
        mean = vectors[MEAN * dim], m2 = vectors[M2 * dim], square = vectors[SQUARE * dim], unit = vectors[UNIT * dim];
        unit_square = vectors[UNIT_SQUARE * dim], within = vectors[WITHIN * dim];
    }

    __device__ __forceinline__ void store(double* vectors, u32 dim) const {
        vectors[MEAN * dim] = mean, vectors[M2 * dim] = m2, vectors[SQUARE * dim] = square, vectors[UNIT * dim] = unit;
        vectors[UNIT_SQUARE * dim] = unit_square, vectors[WITHIN * dim] = within;
    }
};

// FAN parts become one.
extern "C" __global__ void __launch_bounds__(STRIP)
    fold_parts(u32 dim, const double* vectors, const double* numbers, u32 count, double* folded_vectors, double* folded_numbers) {
    u32 first = blockIdx.x * FAN, end = min(count, first + FAN), own = blockIdx.y * STRIP + threadIdx.x;
    if (own >= dim) return;
    Part part = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    double norm = 0.0;
#pragma unroll 4
    for (u32 at = first; at < end; ++at) {
        const double* number = numbers + (size_t)NUMBERS * at;
        part.join(vectors + (size_t)at * VECTORS * dim + own, dim, number[0], number[1]);
        norm += number[2];
    }
    part.store(folded_vectors + (size_t)blockIdx.x * VECTORS * dim + own, dim);
    if (own == 0) {
        double* number = folded_numbers + (size_t)NUMBERS * blockIdx.x;
        number[0] = part.n, number[1] = part.nonzero, number[2] = norm;
    }
}

// The folded parts enter the resident corpus; its numbers change only in `finish_numbers`.
extern "C" __global__ void __launch_bounds__(STRIP)
    corpus_vectors(u32 dim, const double* vectors, const double* numbers, u32 count, u32 keeps_units, const u64* corpus_n, double* corpus) {
    u32 own = blockIdx.x * STRIP + threadIdx.x;
    if (own >= dim) return;
    Part part;
    part.n = (double)corpus_n[0];
    part.nonzero = (double)corpus_n[1];
    part.load(corpus + own, dim);
#pragma unroll 4
    for (u32 at = 0; at < count; ++at) {
        const double* number = numbers + (size_t)NUMBERS * at;
        part.join(vectors + (size_t)at * VECTORS * dim + own, dim, number[0], keeps_units ? number[1] : 0.0);
    }
    part.store(corpus + own, dim);
}

// M2 of every group of the batch, n and mean norm of the chosen ones, and the numbers of the corpus: n, non-zero and excluded rows; the
// mean norm. Rows that are not finite were left out.
extern "C" __global__ void finish_numbers(const u32* segments, u32 count, const double* growth, u32 warps, double* group_m2,
                                          const double* numbers, u32 parts, u32 keeps_units, const u32* flags, u64* corpus_n,
                                          double* corpus_norm, const double* weights, const u32* chosen_places, u64* chosen_n,
                                          double* chosen_norm) {
    u32 segment = blockIdx.x * blockDim.x + threadIdx.x;
    if (segment < count) {
        double grown = 0.0;
        for (u32 warp = 0; warp < warps; ++warp) grown += growth[(size_t)segment * warps + warp];
        u32 group = segments[3 * segment], place = chosen_places ? chosen_places[group] : NOT_CHOSEN;
        group_m2[group] += grown;
        if (place != NOT_CHOSEN) {
            const double* weight = weights + (size_t)segment * WEIGHTS;
            chosen_norm[place] = mean_of_means(chosen_norm[place], (double)chosen_n[place], weight[MEAN_NORM], weight[ENTERING]);
            chosen_n[place] += (u64)weight[ENTERING];
        }
    }
    if (segment > 0) return;
    double n = 0.0, nonzero = 0.0, norm = 0.0;
    for (u32 at = 0; at < parts; ++at) {
        n += numbers[NUMBERS * at];
        nonzero += numbers[NUMBERS * at + 1];
        norm += numbers[NUMBERS * at + 2];
    }
    if (n > 0.0) corpus_norm[0] = mean_of_means(corpus_norm[0], (double)corpus_n[0], norm / n, n);
    corpus_n[0] += (u64)n;
    corpus_n[1] += keeps_units ? (u64)nonzero : 0;
    corpus_n[2] += flags[BAD_ROWS];
}

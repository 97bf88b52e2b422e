// What every statistic needs of the rows of a batch at one point: items made of several rows, norms, which rows are massive or not
// finite, and copies of a few rows.

// Items from the rows of the model: an item of several rows is their mean, taken in f64 and rounded once.
extern "C" __global__ void pool_items(const float* rows, u32 dim, const u32* bounds, float* items) {
    u32 item = blockIdx.x, first = bounds[2 * item], end = bounds[2 * item + 1];
    for (u32 column = threadIdx.x; column < dim; column += blockDim.x) {
        double sum = 0.0;
        for (u32 row = first; row < end; ++row) sum += (double)rows[(size_t)row * dim + column];
        items[(size_t)item * dim + column] = (float)(sum / (double)(end - first));
    }
}

// ||x||^2, ||x||, 1 / ||x|| (0 of the zero vector) and kind of the counted rows: one warp a row. Counters are integers, so that their
// order does not matter.
extern "C" __global__ void row_norms(const float* states, u32 dim, const u32* counted, u32 count, double threshold, double* squares,
                                     double* norms, double* inverses, u8* kinds, u32* flags) {
    u32 place = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (place >= count) return;
    u32 row = counted[place];
    const float* state = states + (size_t)row * dim;
    double sum = 0.0;
#pragma unroll 8
    for (u32 column = lane; column < dim; column += WARP) {
        double x = (double)state[column];
        sum = fma(x, x, sum);
    }
    sum = warp_sum(sum);
    if (lane > 0) return;
    double norm = sqrt(sum);
    u8 kind = !isfinite(norm) ? BAD : norm > threshold ? MASSIVE : TYPICAL;
    squares[row] = sum;
    norms[row] = norm;
    inverses[row] = norm > 0.0 ? 1.0 / norm : 0.0;
    kinds[row] = kind;
    if (kind == BAD) {
        atomicAdd(flags + BAD_ROWS, 1u);
        atomicMax(flags + FIRST_BAD, ~row);
    } else if (kind == MASSIVE) {
        atomicAdd(flags + MASSIVE_ROWS, 1u);
    }
}

// The rows that are massive here or, if `before` has their kinds, at the point before: ascending, with marks. By one block; where there
// are none it is done at once.
extern "C" __global__ void massive_rows(const u32* counted, u32 count, const u8* kinds, const u8* before, const u32* flags_before, u32* flags,
                                        u32* found) {
    __shared__ u32 of_warp[WARP];
    if (flags[MASSIVE_ROWS] == 0 && (!before || flags_before[MASSIVE_ROWS] == 0)) return;
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP, done = 0;
    for (u32 first = 0; first < count; first += blockDim.x) {
        u32 place = first + threadIdx.x, row = place < count ? counted[place] : 0, word = row;
        if (place < count && kinds[row] == MASSIVE) word |= MASSIVE_HERE;
        if (place < count && before && before[row] == MASSIVE) word |= MASSIVE_BEFORE;
        u32 among = __ballot_sync(0xffffffffu, word != row);
        if (lane == 0) of_warp[warp] = __popc(among);
        __syncthreads();
        u32 earlier = done;
        for (u32 other = 0; other < warps; ++other) {
            if (other < warp) earlier += of_warp[other];
            done += of_warp[other];
        }
        if (word != row) found[earlier + __popc(among & ((1u << lane) - 1u))] = word;
        __syncthreads();
    }
    if (threadIdx.x == 0) flags[FOUND_ROWS] = done;
}

// Copies of these rows, one after another; how many there are only the device knows.
extern "C" __global__ void copy_found(const float* states, u32 dim, const u32* found, const u32* flags, float* copies) {
    u32 count = flags[FOUND_ROWS];
    for (u32 place = blockIdx.x; place < count; place += gridDim.x) {
        const float* state = states + (size_t)(found[place] & ROW_BITS) * dim;
        for (u32 column = threadIdx.x; column < dim; column += blockDim.x) copies[(size_t)place * dim + column] = state[column];
    }
}

// Kept states go to their slots: (row, slot) for every one.
extern "C" __global__ void keep_rows(const float* states, u32 dim, const u32* slots, float* kept) {
    const float* state = states + (size_t)slots[2 * blockIdx.x] * dim;
    float* slot = kept + (size_t)slots[2 * blockIdx.x + 1] * dim;
    for (u32 column = threadIdx.x; column < dim; column += blockDim.x) slot[column] = state[column];
}

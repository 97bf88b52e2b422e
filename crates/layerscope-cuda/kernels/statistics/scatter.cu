// Around the products of deviations: what they are products of, and how they enter the covariance of a point and its products with the
// point before. The products themselves are a library's, in f64.
//
// A row that is not typical becomes zeros, so that it adds nothing. Resident products lie in the host's own order: blocks of a panel by
// a panel, those of a covariance on and above the diagonal.

// Rows of a partial sum of a column.
#define CHUNK 256

// Sums of the components of typical rows, CHUNK rows a block.
extern "C" __global__ void __launch_bounds__(STRIP)
    column_sums(const float* states, u32 dim, const u32* counted, u32 rows, const u8* kinds, double* sums) {
    u32 first = blockIdx.x * CHUNK, end = min(rows, first + CHUNK), own = blockIdx.y * STRIP + threadIdx.x;
    if (own >= dim) return;
    double sum = 0.0;
#pragma unroll 8
    for (u32 place = first; place < end; ++place) {
        u32 row = counted[place];
        float x = states[(size_t)row * dim + own];
        sum += kinds[row] == TYPICAL ? (double)x : 0.0;
    }
    sums[(size_t)blockIdx.x * dim + own] = sum;
}

// Typical rows of a batch.
__device__ __forceinline__ double typical_rows(u32 rows, const u32* flags) {
    return (double)(rows - flags[BAD_ROWS] - flags[MASSIVE_ROWS]);
}

// Their means, 0 if there are none.
extern "C" __global__ void __launch_bounds__(STRIP)
    column_means(u32 dim, const double* sums, u32 chunks, u32 rows, const u32* flags, double* mean) {
    u32 own = blockIdx.x * STRIP + threadIdx.x;
    if (own >= dim) return;
    double sum = 0.0, n = typical_rows(rows, flags);
#pragma unroll 8
    for (u32 chunk = 0; chunk < chunks; ++chunk) sum += sums[(size_t)chunk * dim + own];
    mean[own] = n > 0.0 ? sum / n : 0.0;
}

// Deviations of some counted rows, from `first` on, one after another; zeros where a row is not typical here or, if `others` is given,
// at another point.
extern "C" __global__ void widen_rows(const float* states, u32 dim, const u32* counted, u32 first, const u8* kinds, const u8* others,
                                      const double* mean, double* deviations) {
    u32 row = counted[first + blockIdx.x];
    bool is_typical = kinds[row] == TYPICAL && (!others || others[row] == TYPICAL);
    for (u32 column = threadIdx.x; column < dim; column += blockDim.x) {
        double x = (double)states[(size_t)row * dim + column];
        deviations[(size_t)blockIdx.x * dim + column] = is_typical ? x - mean[column] : 0.0;
    }
}

// The mean of the states that are typical at both points, and how far it is from that of those that are typical at the one point whose
// states these are. The two differ by the massive rows of the other point, which `found` lists; `own_mark` marks those of this one.
extern "C" __global__ void __launch_bounds__(STRIP)
    pair_means(const float* states, u32 dim, const u32* found, const u32* flags, u32 own_mark, u32 rows, const double* mean, double* pair_mean,
               double* shift) {
    u32 own = blockIdx.x * STRIP + threadIdx.x, count = flags[FOUND_ROWS];
    if (own >= dim) return;
    double sum = 0.0, n = (double)(rows - count);
#pragma unroll 8
    for (u32 place = 0; place < count; ++place) {
        u32 word = found[place];
        float x = states[(size_t)(word & ROW_BITS) * dim + own];
        sum += word & own_mark ? 0.0 : (double)x - mean[own];
    }
    shift[own] = n > 0.0 ? -sum / n : 0.0;
    pair_mean[own] = mean[own] + shift[own];
}

// S = S_a + S_b + delta delta^T n_a n_b / (n_a + n_b): one block of a panel by a panel.
extern "C" __global__ void merge_gram(u32 dim, u32 panel, const double* product, const double* mean, u32 rows, const u32* flags,
                                      const u64* resident_n, const double* resident_mean, double* blocks) {
    u32 p = blockIdx.x, q = blockIdx.y;
    double n = typical_rows(rows, flags), before = (double)resident_n[0];
    if (p > q || n == 0.0) return;
    double cross = before * (n / (before + n));
    double* block = blocks + ((size_t)q * (q + 1) / 2 + p) * panel * panel;
    for (u32 place = threadIdx.x; place < panel * panel; place += blockDim.x) {
        u32 i = p * panel + place / panel, j = q * panel + place % panel;
        if (i >= dim || j >= dim) continue;
        double left = cross * (mean[i] - resident_mean[i]);
        block[place] += product[(size_t)min(i, j) * dim + max(i, j)] + left * (mean[j] - resident_mean[j]);
    }
}

// Its mean and number of states, afterwards; one block.
extern "C" __global__ void finish_gram(u32 dim, const double* mean, u32 rows, const u32* flags, u64* resident_n, double* resident_mean) {
    double n = typical_rows(rows, flags), before = (double)resident_n[0];
    __syncthreads();
    if (n == 0.0) return;
    for (u32 column = threadIdx.x; column < dim; column += blockDim.x) {
        resident_mean[column] += (mean[column] - resident_mean[column]) * (n / (before + n));
    }
    if (threadIdx.x == 0) resident_n[0] += (u64)n;
}

// States that are typical at both points; none where the points have different rows.
__device__ __forceinline__ double paired_rows(u32 rows, const u32* flags_before, const u32* flags) {
    return flags_before[BAD_ROWS] + flags[BAD_ROWS] > 0 ? 0.0 : (double)(rows - flags[FOUND_ROWS]);
}

// The same of the products with the point before. Deviations were from means that are off by the shifts.
extern "C" __global__ void merge_cross(u32 dim_before, u32 dim, u32 panel, const double* product, const double* means, const double* shifts,
                                       u32 rows, const u32* flags_before, const u32* flags, const u64* resident_n,
                                       const double* resident_means, double* blocks) {
    u32 p = blockIdx.x, q = blockIdx.y;
    double n = paired_rows(rows, flags_before, flags), before = (double)resident_n[0];
    if (n == 0.0) return;
    double cross = before * (n / (before + n));
    double* block = blocks + ((size_t)p * gridDim.y + q) * panel * panel;
    for (u32 place = threadIdx.x; place < panel * panel; place += blockDim.x) {
        u32 i = p * panel + place / panel, j = q * panel + place % panel, here = dim_before + j;
        if (i >= dim_before || j >= dim) continue;
        double own = product[(size_t)i * dim + j] - n * shifts[i] * shifts[here];
        double left = cross * (means[i] - resident_means[i]);
        block[place] += own + left * (means[here] - resident_means[here]);
    }
}

// Both means, one after another, and the number of states, afterwards; one block.
extern "C" __global__ void finish_cross(u32 components, const double* means, u32 rows, const u32* flags_before, const u32* flags,
                                        u64* resident_n, double* resident_means) {
    double n = paired_rows(rows, flags_before, flags), before = (double)resident_n[0];
    __syncthreads();
    if (n == 0.0) return;
    for (u32 column = threadIdx.x; column < components; column += blockDim.x) {
        resident_means[column] += (means[column] - resident_means[column]) * (n / (before + n));
    }
    if (threadIdx.x == 0) resident_n[0] += (u64)n;
}

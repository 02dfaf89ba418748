// C = A B in f64, all column-major, after the stencil of Anzt et al. (2015), section 2.2: a block of
// DIM_M x DIM_N threads computes BLK_M x BLK_N of C in stripes of BLK_K, and reads the stripes of A and B as
// M_A x N_A and M_B x N_B threads. Edges are guarded: tiles need not divide M, N and K.
// Macros: M, N, K and the axes of beast_dgemm.toml. SIMD: doubles of one read. READ_A, READ_B: 1 for reads
// through the texture path. INTERLEAVED: stripes of A and B in one loop, or one after the other.

constexpr int THREADS = DIM_M * DIM_N;
constexpr int N_A = THREADS / M_A, N_B = THREADS / M_B;
constexpr int READS_A = BLK_M / (M_A * SIMD) * (BLK_K / N_A), READS_B = BLK_K / (M_B * SIMD) * (BLK_N / N_B);
constexpr int TILE_M = BLK_M / DIM_M, TILE_N = BLK_N / DIM_N;
static_assert(M % SIMD == 0 && K % SIMD == 0, "a read is whole, or not at all");

struct alignas(8 * SIMD) Some { double of[SIMD]; };

template <int THROUGH_TEXTURE> __device__ Some read(const double* from, bool inside)
{
    Some some = {};
    if (!inside) return some;
    if (!THROUGH_TEXTURE) return *reinterpret_cast<const Some*>(from);
#if SIMD == 1
    some.of[0] = __ldg(from);
#else
    const double2 two = __ldg(reinterpret_cast<const double2*>(from));
    some.of[0] = two.x;
    some.of[1] = two.y;
#endif
    return some;
}

__device__ void read_a(const double* a, double* stripe, int row, int k0, int step)
{
    const int t = threadIdx.x;
    const int m = (step % (BLK_M / (M_A * SIMD)) * M_A + t % M_A) * SIMD;
    const int k = step / (BLK_M / (M_A * SIMD)) * N_A + t / M_A;
    const Some some = read<READ_A>(a + (size_t)(k0 + k) * M + row + m, row + m < M && k0 + k < K);
#pragma unroll
    for (int s = 0; s < SIMD; ++s) stripe[k * BLK_M + m + s] = some.of[s];
}

__device__ void read_b(const double* b, double* stripe, int column, int k0, int step)
{
    const int t = threadIdx.x;
    const int k = (step % (BLK_K / (M_B * SIMD)) * M_B + t % M_B) * SIMD;
    const int n = step / (BLK_K / (M_B * SIMD)) * N_B + t / M_B;
    const Some some = read<READ_B>(b + (size_t)(column + n) * K + k0 + k, column + n < N && k0 + k < K);
#pragma unroll
    for (int s = 0; s < SIMD; ++s) stripe[(k + s) * BLK_N + n] = some.of[s];
}

extern "C" __global__ void __launch_bounds__(THREADS)
beast_dgemm(const double* __restrict__ a, const double* __restrict__ b, double* __restrict__ c)
{
    extern __shared__ double stripes[];
    double* const of_a = stripes;
    double* const of_b = stripes + BLK_M * BLK_K;
    const int row = blockIdx.x * BLK_M, column = blockIdx.y * BLK_N;
    const int m0 = threadIdx.x % DIM_M, n0 = threadIdx.x / DIM_M;
    double sum[TILE_N][TILE_M] = {};
#pragma unroll 1
    for (int k0 = 0; k0 < K; k0 += BLK_K) {
#if INTERLEAVED
#pragma unroll
        for (int step = 0; step < (READS_A > READS_B ? READS_A : READS_B); ++step) {
            if (step < READS_A) read_a(a, of_a, row, k0, step);
            if (step < READS_B) read_b(b, of_b, column, k0, step);
        }
#else
#pragma unroll
        for (int step = 0; step < READS_A; ++step) read_a(a, of_a, row, k0, step);
#pragma unroll
        for (int step = 0; step < READS_B; ++step) read_b(b, of_b, column, k0, step);
#endif
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BLK_K; ++k)
#pragma unroll
            for (int j = 0; j < TILE_N; ++j)
#pragma unroll
                for (int i = 0; i < TILE_M; ++i)
                    sum[j][i] += of_a[k * BLK_M + m0 + i * DIM_M] * of_b[k * BLK_N + n0 + j * DIM_N];
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < TILE_N; ++j)
#pragma unroll
        for (int i = 0; i < TILE_M; ++i) {
            const int m = row + m0 + i * DIM_M, n = column + n0 + j * DIM_N;
            if (m < M && n < N) c[(size_t)n * M + m] = sum[j][i];
        }
}

// Before each file of this folder; compiled by NVRTC, so no header is included.
typedef unsigned u32;
typedef unsigned long long u64;
// The input of every kernel: 2^20 words.
#define MASK 0xFFFFFu
#define KERNEL(name) \
    extern "C" __global__ void __launch_bounds__(256) name(const u32* __restrict__ in, u32* __restrict__ out, int rounds)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)
// A block's 1024 words in shared memory, of which each round reads some: so the data stay what they are.
#define TILE                                                                                                  \
    __shared__ u32 tile[1024];                                                                                \
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = in[(blockIdx.x * 1024 + i) & MASK];        \
    __syncthreads();
#define AT(r) tile[((r) * 32 + threadIdx.x) & 1023]
#define FLOAT_AT(r) __uint_as_float(AT(r))
#define DOUBLE_AT(r) ((const double*)tile)[((r) * 16 + threadIdx.x) & 511]
__device__ __forceinline__ u32 word(const u32* in, u32 k) { return in[(k * gridDim.x * blockDim.x + ME) & MASK]; }
__device__ __forceinline__ float real(const u32* in, u32 k) { return __uint_as_float(word(in, k)); }
__device__ __forceinline__ double real64(const u32* in, u32 k) {
    return ((const double*)in)[(k * gridDim.x * blockDim.x + ME) & (MASK >> 1)];
}
__device__ __forceinline__ u32 rotl(u32 x, int n) { return __funnelshift_l(x, x, n); }
__device__ __forceinline__ u64 rotl64(u64 x, int n) { return x << n | x >> (64 - n); }

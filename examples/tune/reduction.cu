// Sum of N whole numbers: each thread adds VECTOR of them at a time, PER_THREAD times; then the warp, then
// the block, then one atomic addition a block.
// Macros: N, BLOCK, VECTOR, PER_THREAD, UNROLL.

constexpr int unrolled = UNROLL;  // a pragma takes no macro

template <int COUNT> struct alignas(4 * COUNT) Packed { int of[COUNT]; };

extern "C" __global__ void __launch_bounds__(BLOCK) reduction(const int* __restrict__ in, int* out)
{
    using Vector = Packed<VECTOR>;
    const Vector* from = reinterpret_cast<const Vector*>(in) + (size_t)blockIdx.x * BLOCK * PER_THREAD;
    int sum = 0;
#pragma unroll unrolled
    for (int n = 0; n < PER_THREAD; ++n) {
        const Vector one = from[n * BLOCK + threadIdx.x];
#pragma unroll
        for (int lane = 0; lane < VECTOR; ++lane) sum += one.of[lane];
    }
#pragma unroll
    for (int reach = 16; reach > 0; reach /= 2) sum += __shfl_down_sync(0xffffffff, sum, reach);
    __shared__ int of_warp[BLOCK / 32];
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < BLOCK / 32 ? of_warp[threadIdx.x] : 0;
#pragma unroll
        for (int reach = 16; reach > 0; reach /= 2) sum += __shfl_down_sync(0xffffffff, sum, reach);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}

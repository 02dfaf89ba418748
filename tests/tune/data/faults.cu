// A kernel whose variants fail in every way that a variant can.
// MODE 0: right; 1: one element off; 2: does not end; 3: too much shared memory; 4: an address that is none.
extern "C" __global__ void faults(const int* in, int* out, int* flag)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
#if MODE == 3
    __shared__ int space[1 << 20];
    space[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = space[BLOCK - 1 - threadIdx.x];
#elif MODE == 2
    while (atomicAdd(flag, 0) == 0) {}
#elif MODE == 4
    out[(long long)i << 40] = 1;
#endif
    out[i] = in[i] + (MODE == 1 && i == 77 ? 1 : 0);
}

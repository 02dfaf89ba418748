KERNEL(histogram) {
    TILE __shared__ u32 bins[256];
    bins[threadIdx.x & 255] = 0;
    __syncthreads();
    for (int r = 0; r < rounds; ++r) atomicAdd(&bins[AT(r) & 255], 1u);
    __syncthreads();
    out[ME] = bins[threadIdx.x & 255];
}
KERNEL(stencil) {
    TILE __shared__ float other[1024];
    float* a = (float*)tile;
    float* b = other;
    float source[4];
    for (int i = 0; i < 4; ++i) source[i] = a[threadIdx.x + 256 * i];
    __syncthreads();
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int at = threadIdx.x + 256 * i;
            b[at] = source[i] + 0.3f * a[at] + 0.3f * (a[(at + 1) & 1023] + a[(at - 1) & 1023]);
        }
        __syncthreads();
        float* t = a;
        a = b, b = t;
    }
    out[ME] = __float_as_uint(a[threadIdx.x]);
}
// Sixteen-way conflicts of banks.
KERNEL(conflict) {
    TILE u32 sum = 0;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) sum += tile[(threadIdx.x * 16 + r * 5 + (sum & 1)) & 1023];
    out[ME] = sum;
}
KERNEL(shuffle_sum) {
    TILE float sum = 0;
    for (int r = 0; r < rounds; ++r) {
        float x = FLOAT_AT(r) + 0.1f * sum;
#pragma unroll
        for (int i = 16; i; i >>= 1) x += __shfl_xor_sync(0xffffffffu, x, i);
        sum = 0.01f * x;
    }
    out[ME] = __float_as_uint(sum);
}

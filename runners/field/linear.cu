// PolyBench's mvt: products of a matrix of 65,536 rows with a vector, a warp for each row.
KERNEL(mvt) {
    __shared__ float4 x[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) x[i] = ((const float4*)in)[i];
    __syncthreads();
    const u32 warps = gridDim.x * blockDim.x >> 5, lane = threadIdx.x & 31;
    for (int r = 0; r < rounds; ++r) {
        const u32 row = r * warps + (ME >> 5);
        if (row >= 65536) break;
        const float4* a = (const float4*)in + (row << 10);
        float sum = 0;
#pragma unroll 8
        for (int k = 0; k < 1024; k += 32) {
            const float4 v = a[k + lane], w = x[k + lane];
            sum += v.x * w.x + v.y * w.y + v.z * w.z + v.w * w.w;
        }
#pragma unroll
        for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
        if (lane == 0) out[row] = __float_as_uint(sum);
    }
}
// SHOC's spmv, ELLPACK: 2^22 rows of 16 values each; columns are anywhere.
#define ROWS (1u << 22)
KERNEL(spmv) {
    const float *value = (const float*)in + (1u << 26), *x = value + (1u << 26);
    for (int r = 0; r < rounds; ++r) {
        const u32 row = r * gridDim.x * blockDim.x + ME;
        if (row >= ROWS) break;
        float sum = 0;
#pragma unroll 4
        for (int k = 0; k < 16; ++k) sum += value[k * ROWS + row] * x[in[k * ROWS + row] * 2654435761u >> 10];
        out[row] = __float_as_uint(sum);
    }
}
// Rodinia's lud: blocks of 16 x 16 values, taken apart in shared memory.
KERNEL(lud) {
    __shared__ float tile[1024];
    float sum = 0;
    const int i = threadIdx.x >> 2 & 15, j = 4 * (threadIdx.x & 3);
    float* a = tile + 256 * (threadIdx.x >> 6);
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int k = 0; k < 4; ++k) a[16 * i + j + k] = real(in, 4 * r + k) + (i == j + k ? 8.0f : 0.0f);
        __syncthreads();
        for (int k = 0; k < 15; ++k) {
            if (i > k) {
                const float l = a[16 * i + k] / a[17 * k];
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    if (j + c > k) a[16 * i + j + c] -= l * a[16 * k + j + c];
            }
            __syncthreads();
        }
        sum += a[16 * i + j];
    }
    out[ME] = __float_as_uint(sum);
}

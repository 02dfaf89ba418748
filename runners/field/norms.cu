__device__ __forceinline__ float of_block(float x, float* part, bool largest) {
#pragma unroll
    for (int k = 16; k; k >>= 1) {
        const float y = __shfl_xor_sync(~0u, x, k);
        x = largest ? fmaxf(x, y) : x + y;
    }
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = x;
    __syncthreads();
    x = part[0];
#pragma unroll
    for (int k = 1; k < 8; ++k) x = largest ? fmaxf(x, part[k]) : x + part[k];
    __syncthreads();
    return x;
}
// Rows of 4,096 values, a block for each.
KERNEL(softmax) {
    __shared__ float part[8];
    const float* x = (const float*)in + (blockIdx.x << 12);
    float v[16], most = -1e30f, sum = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = x[256 * i + threadIdx.x], most = fmaxf(most, v[i]);
    most = of_block(most, part, true);
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = __expf(v[i] - most), sum += v[i];
    sum = 1.0f / of_block(sum, part, false);
#pragma unroll
    for (int i = 0; i < 16; ++i) ((float*)out)[(blockIdx.x << 12) + 256 * i + threadIdx.x] = v[i] * sum;
}
KERNEL(layer_norm) {
    __shared__ float part[8];
    const float* x = (const float*)in + (blockIdx.x << 12);
    float v[16], sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = x[256 * i + threadIdx.x], sum += v[i];
    const float mean = of_block(sum, part, false) * (1 / 4096.f);
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] -= mean, squares += v[i] * v[i];
    const float scale = rsqrtf(of_block(squares, part, false) * (1 / 4096.f) + 1e-5f);
#pragma unroll
    for (int i = 0; i < 16; ++i) ((float*)out)[(blockIdx.x << 12) + 256 * i + threadIdx.x] = v[i] * scale;
}
#define WEIGHTS (1u << 26)
KERNEL(adamw_step) {
    const float *w = (const float*)in, *g = w + WEIGHTS, *m = g + WEIGHTS, *v = m + WEIGHTS;
    float *w1 = (float*)out, *m1 = w1 + WEIGHTS, *v1 = m1 + WEIGHTS;
    const float grad = g[ME], first = 0.9f * m[ME] + 0.1f * grad, second = 0.999f * fabsf(v[ME]) + 0.001f * grad * grad;
    w1[ME] = w[ME] * (1 - 1e-5f) - 1e-3f * (first * 1.1f) / (sqrtf(second * 1.2f) + 1e-8f);
    m1[ME] = first, v1[ME] = second;
}

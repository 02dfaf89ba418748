__device__ __forceinline__ float low(u32 x) { return __uint_as_float(x << 16); }
__device__ __forceinline__ float high(u32 x) { return __uint_as_float(x & 0xffff0000u); }
__device__ __forceinline__ u32 both(float l, float h) {
    u32 x;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(h), "f"(l));
    return x;
}
// Root mean square norm of 131,072 rows of 4,096 values, a block for each row.
KERNEL(rmsnorm) {
    __shared__ float part[8];
    for (int r = 0; r < rounds; ++r) {
        const u32 row = r * gridDim.x + blockIdx.x;
        if (row >= 131072) break;
        const uint4* x = (const uint4*)in + (row << 9);
        const uint4 a = x[threadIdx.x], b = x[threadIdx.x + 256];
        const u32 v[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += low(v[k]) * low(v[k]) + high(v[k]) * high(v[k]);
#pragma unroll
        for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
        if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = sum;
        __syncthreads();
        sum = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += part[k];
        __syncthreads();
        const float scale = rsqrtf(sum * (1 / 4096.f) + 1e-5f);
        u32 y[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) y[k] = both(low(v[k]) * scale, high(v[k]) * scale);
        uint4* to = (uint4*)out + (row << 9);
        to[threadIdx.x] = make_uint4(y[0], y[1], y[2], y[3]), to[threadIdx.x + 256] = make_uint4(y[4], y[5], y[6], y[7]);
    }
}
// Product of a matrix of 8-bit weights with a vector, a warp for each row of 16,384; a scale for each 32.
KERNEL(product_q8) {
    __shared__ uint4 x[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) x[i] = ((const uint4*)in)[i];
    __syncthreads();
    const u32 warps = gridDim.x * blockDim.x >> 5, lane = threadIdx.x & 31;
    for (int r = 0; r < rounds; ++r) {
        const u32 row = r * warps + (ME >> 5);
        if (row >= 65536) break;
        const uint4* a = (const uint4*)in + (row << 10);
        float sum = 0;
#pragma unroll 4
        for (int k = 0; k < 1024; k += 32) {
            const uint4 v = a[k + lane], w = x[k + lane];
            int dot = __dp4a((int)v.x, (int)w.x, 0);
            dot = __dp4a((int)v.y, (int)w.y, dot), dot = __dp4a((int)v.z, (int)w.z, dot), dot = __dp4a((int)v.w, (int)w.w, dot);
            sum += dot * (0.01f + 1e-5f * k);
        }
#pragma unroll
        for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
        if (lane == 0) out[row] = __float_as_uint(sum);
    }
}
// Weights of 4 bits made f32 and multiplied, eight of a word, with a scale for each word.
KERNEL(product_q4) {
    TILE float sum = 0, x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = 0.1f * i - 0.3f;
#pragma unroll 2
    for (int r = 0; r < rounds; ++r) {
        const u32 w = AT(r);
        float part = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) part += x[i] * ((int)(w >> 4 * i & 15) - 8);
        sum += part * (1.0f + 1e-6f * r);
    }
    out[ME] = __float_as_uint(sum);
}
// One query's attention: scores of 16 dimensions, a softmax that goes along, and values.
KERNEL(attend) {
    TILE float q[16], v[16] = {}, most = -1e30f, sum = 0;
    const float4* kv = (const float4*)tile;
#pragma unroll
    for (int i = 0; i < 16; ++i) q[i] = 0.25f * real(in, i);
    for (int r = 0; r < rounds; ++r) {
        float score = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float4 k = kv[(8 * r + i) & 255];
            score += q[4 * i] * k.x + q[4 * i + 1] * k.y + q[4 * i + 2] * k.z + q[4 * i + 3] * k.w;
        }
        const float now = fmaxf(most, score), keep = __expf(most - now), p = __expf(score - now);
        most = now, sum = sum * keep + p;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float4 k = kv[(8 * r + 4 + i) & 255];
            v[4 * i] = v[4 * i] * keep + p * k.x, v[4 * i + 1] = v[4 * i + 1] * keep + p * k.y;
            v[4 * i + 2] = v[4 * i + 2] * keep + p * k.z, v[4 * i + 3] = v[4 * i + 3] * keep + p * k.w;
        }
    }
    float all = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) all += v[i];
    out[ME] = __float_as_uint(all / sum);
}
// A step of AdamW on 2^26 weights.
#define WEIGHTS (1u << 26)
KERNEL(adamw) {
    const float *w = (const float*)in, *g = w + WEIGHTS, *m = g + WEIGHTS, *v = m + WEIGHTS;
    float *w1 = (float*)out, *m1 = w1 + WEIGHTS, *v1 = m1 + WEIGHTS;
    for (int r = 0; r < rounds; ++r) {
        const u32 at = r * gridDim.x * blockDim.x + ME;
        if (at >= WEIGHTS) break;
        const float grad = g[at], first = 0.9f * m[at] + 0.1f * grad, second = 0.999f * fabsf(v[at]) + 0.001f * grad * grad;
        w1[at] = w[at] * (1 - 1e-5f) - 1e-3f * (first * 1.1f) / (sqrtf(second * 1.2f) + 1e-8f);
        m1[at] = first, v1[at] = second;
    }
}

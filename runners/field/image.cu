// The median of three by three pixels, by minima and maxima.
__device__ __forceinline__ void order(u32& a, u32& b) {
    const u32 low = min(a, b);
    b = max(a, b), a = low;
}
KERNEL(median) {
    TILE u32 sum = 0;
    for (int r = 0; r < rounds; ++r) {
        u32 p[9];
#pragma unroll
        for (int i = 0; i < 9; ++i) p[i] = AT(r + i / 3) >> 8 * (i % 3) & 255;
        order(p[1], p[2]), order(p[4], p[5]), order(p[7], p[8]), order(p[0], p[1]), order(p[3], p[4]), order(p[6], p[7]);
        order(p[1], p[2]), order(p[4], p[5]), order(p[7], p[8]), order(p[0], p[3]), order(p[5], p[8]), order(p[4], p[7]);
        order(p[3], p[6]), order(p[1], p[4]), order(p[2], p[5]), order(p[4], p[7]), order(p[4], p[2]), order(p[6], p[4]);
        order(p[4], p[2]);
        sum += p[4];
    }
    out[ME] = sum;
}
// A bilateral filter: neighbours count by how near they are, and how like.
KERNEL(bilateral) {
    TILE float all = 0;
    for (int r = 0; r < rounds; ++r) {
        const float centre = FLOAT_AT(r);
        float sum = 0, weights = 0;
#pragma unroll
        for (int i = -4; i <= 4; ++i) {
            const float p = FLOAT_AT(r + i), d = p - centre, w = __expf(-0.1f * i * i - 8.0f * d * d);
            sum += w * p, weights += w;
        }
        all += __fdividef(sum, weights);
    }
    out[ME] = __float_as_uint(all);
}
// Rodinia's kmeans: the nearest of 32 centres in eight dimensions.
KERNEL(kmeans) {
    TILE float x[8];
    u32 sum = 0;
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = real(in, 8 * r + i);
        float nearest = 1e30f;
        int which = 0;
#pragma unroll 4
        for (int c = 0; c < 32; ++c) {
            const float4 a = ((const float4*)tile)[2 * c], b = ((const float4*)tile)[2 * c + 1];
            const float e[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            float d = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) d += (x[i] - e[i]) * (x[i] - e[i]);
            if (d < nearest) nearest = d, which = c;
        }
        sum += which;
    }
    out[ME] = sum;
}

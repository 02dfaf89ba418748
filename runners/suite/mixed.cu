// Philox, and Box and Muller: normal numbers.
KERNEL(normals) {
    u32 a = word(in, 0), b = word(in, 1);
    float sum = 0;
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 high = __umulhi(a, 0xD256D193u), low = a * 0xD256D193u;
            a = high ^ b ^ (0x9E3779B9u * i), b = low;
        }
        b += r;
        const float u = a * 2.3283064e-10f + 1e-10f, v = b * 1.4629181e-9f;
        sum += sqrtf(-2.0f * __logf(u)) * __cosf(v);
    }
    out[ME] = __float_as_uint(sum);
}
KERNEL(spheres) {
    TILE const float x = real(in, 0), y = real(in, 1), z = 1.0f;
    float nearest = 1e30f;
#pragma unroll 2
    for (int r = 0; r < rounds; ++r) {
        const float cx = FLOAT_AT(r), cy = FLOAT_AT(r + 9), cz = 4.0f;
        const float b = cx * x + cy * y + cz * z, c = cx * cx + cy * cy + cz * cz - 9.0f, d = b * b - c;
        if (d > 0) {
            const float t = b - sqrtf(d);
            if (t > 1e-3f && t < nearest) nearest = t + 1e-4f * r;
        }
    }
    out[ME] = __float_as_uint(nearest);
}
// Local alignment: a row of eight cells for each letter.
KERNEL(align) {
    TILE int h[8] = {};
    const u32 me = word(in, 0);
    int best = 0;
    for (int r = 0; r < rounds; ++r) {
        const u32 letter = AT(r);
        int diagonal = 0, left = 0;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int score = ((me >> 4 * j ^ letter) & 15) == 0 ? 3 : -1;
            const int now = max(max(diagonal + score, 0), max(left - 2, h[j] - 2));
            diagonal = h[j], left = h[j] = now, best = max(best, now);
        }
    }
    out[ME] = best;
}
KERNEL(mandelbrot) {
    const float cx = -0.1f + 0.01f * __sinf(real(in, 0)), cy = 0.65f + 0.01f * __cosf(real(in, 1));
    float x = 0, y = 0;
    int escaped = 0;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        const float xx = x * x, yy = y * y;
        y = 2 * x * y + cy, x = xx - yy + cx;
        if (xx + yy > 4.0f) x = 0, y = 0, ++escaped;
    }
    out[ME] = escaped + __float_as_uint(x + y);
}
// A tile of a product of f32 matrices, from shared memory.
KERNEL(product) {
    TILE float c[4][4] = {};
    for (int r = 0; r < rounds; ++r) {
        const float4 a = ((const float4*)tile)[(r + (threadIdx.x >> 4)) & 255], b = ((const float4*)tile)[(r * 16 + (threadIdx.x & 15)) & 255];
        const float x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) c[i][j] = fmaf(x[i], y[j], c[i][j]);
    }
    float sum = 0;
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sum += c[i][j];
    out[ME] = __float_as_uint(sum);
}

KERNEL(horner) {
    TILE const float k = real(in, 0);
    float sum = 0.1f;
    for (int r = 0; r < rounds; ++r) {
        float p = FLOAT_AT(r);
#pragma unroll
        for (int i = 0; i < 12; ++i) p = fmaf(p, 0.4f, i & 1 ? k : -sum);
        sum = 0.3f * p;
    }
    out[ME] = __float_as_uint(sum);
}
KERNEL(fir) {
    TILE float x[8], k[8], sum = 0;
    for (int i = 0; i < 8; ++i) x[i] = 0, k[i] = real(in, i);
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            x[i] = FLOAT_AT(8 * r + i);
            float y = 0;
#pragma unroll
            for (int j = 0; j < 8; ++j) y = fmaf(k[j], x[(i + j) & 7], y);
            sum = fmaxf(0.5f * sum, y);
        }
    out[ME] = __float_as_uint(sum);
}
KERNEL(adds) {
    TILE float a = real(in, 0), b = real(in, 1), c = 0;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        const float x = FLOAT_AT(r);
        a = x - 0.5f * a, b = (b + a) * 0.25f, c = (a + b) - c * 0.125f;
    }
    out[ME] = __float_as_uint(a + b + c);
}

KERNEL(sin_cos) {
    TILE float sum = 0;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        const float x = FLOAT_AT(r);
        sum += __sinf(x) * __cosf(x + sum);
    }
    out[ME] = __float_as_uint(sum);
}
KERNEL(explog) {
    TILE float sum = 1;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) sum = 0.5f * sum + __logf(1.0f + __expf(-fabsf(FLOAT_AT(r)))) + __expf(-sum);
    out[ME] = __float_as_uint(sum);
}
KERNEL(normalise) {
    TILE float sum = 0.1f;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        const float x = FLOAT_AT(r), y = sum;
        const float n = rsqrtf(x * x + y * y + 1e-3f);
        sum = x * n + 0.5f * y * n;
    }
    out[ME] = __float_as_uint(sum);
}
KERNEL(black_scholes) {
    TILE float sum = 0;
    for (int r = 0; r < rounds; ++r) {
        const float s = 10.0f + fabsf(FLOAT_AT(r)) + 1e-3f * sum, k = 11.0f, t = 0.5f, v = 0.3f;
        const float root = sqrtf(t), d1 = __fdividef(__logf(s * 0.0909f) + (0.02f + 0.5f * v * v) * t, v * root);
        const float d2 = d1 - v * root, k1 = __fdividef(1.0f, 1.0f + 0.2316419f * fabsf(d1));
        const float p = 0.39894228f * __expf(-0.5f * d1 * d1) * k1 *
                        (0.31938153f + k1 * (-0.356563782f + k1 * (1.781477937f + k1 * (-1.821255978f + k1 * 1.330274429f))));
        sum = 0.9f * sum + s * (d1 > 0 ? 1 - p : p) - k * __expf(-0.02f * t) * __expf(-0.1f * fabsf(d2));
    }
    out[ME] = __float_as_uint(sum);
}
KERNEL(gelu) {
    TILE float sum = 0;
#pragma unroll 2
    for (int r = 0; r < rounds; ++r) {
        const float x = FLOAT_AT(r), u = 0.79788456f * (x + 0.044715f * x * x * x);
        sum += __fdividef(x, 1.0f + __expf(-2.0f * u));
    }
    out[ME] = __float_as_uint(sum);
}

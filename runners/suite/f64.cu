KERNEL(horner64) {
    TILE const double k = 0.9 + 1e-3 * real64(in, 0);
    double sum = 0.1;
    for (int r = 0; r < rounds; ++r) {
        const double x = DOUBLE_AT(r);
        double p = x;
#pragma unroll
        for (int i = 0; i < 8; ++i) p = fma(p, 0.4, k * (i & 1 ? 1 : -1));
        sum = fma(sum, 0.3, p);
    }
    out[ME] = (u32)__double2loint(sum);
}
KERNEL(logistic64) {
    double x[2] = {0.3 + 1e-7 * ME, 0.6};
    const double a = 3.7 + 0.1 / (2 + fabs(real64(in, 0)));
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 2; ++i) x[i] = a * x[i] * (1.0 - x[i]);
    out[ME] = (u32)__double2loint(x[0] + x[1]);
}
KERNEL(forces64) {
    TILE const double x = real64(in, 0), y = real64(in, 1);
    double a = 0, b = 0;
    for (int r = 0; r < rounds; ++r) {
        const double dx = DOUBLE_AT(r) - x, dy = DOUBLE_AT(r + 7) - y, d = fma(dx, dx, fma(dy, dy, 0.1));
        double n = (double)rsqrtf((float)d);
        n = n * fma(-0.5 * d * n, n, 1.5);
        const double s = n * n * n;
        a = fma(dx, s, a), b = fma(dy, s, b);
    }
    out[ME] = (u32)(__double2loint(a) ^ __double2loint(b));
}
KERNEL(add64) {
    TILE double a = real64(in, 0), b = real64(in, 1);
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        const double x = DOUBLE_AT(r);
        a += x, b = (b - x) + 1e-3 * a, a -= b;
    }
    out[ME] = (u32)(__double2loint(a) ^ __double2loint(b));
}

KERNEL(divide_u32) {
    TILE const u32 d = word(in, 0) | 3;
    u32 sum = ME;
    for (int r = 0; r < rounds; ++r) {
        const u32 x = AT(r) | 1;
        sum = sum * 3 + (sum + r) / x + x / d;
    }
    out[ME] = sum;
}
KERNEL(modulo_u64) {
    TILE u64 sum = 0x9e3779b97f4a7c15ull + ME;
    for (int r = 0; r < rounds; ++r) sum = sum * 0x9e3779b97f4a7c15ull % ((u64)AT(r) << 20 | 12345);
    out[ME] = (u32)sum;
}
KERNEL(divide_f32) {
    TILE float sum = 1;
    for (int r = 0; r < rounds; ++r) {
        const float x = FLOAT_AT(r);
        sum = (x + 1.5f) / (fabsf(sum) + 1.25f) + 1.0f / (fabsf(x) + 1.5f);
    }
    out[ME] = __float_as_uint(sum);
}
KERNEL(divide_f64) {
    TILE double sum = 1;
    for (int r = 0; r < rounds; ++r) sum = (DOUBLE_AT(r) + 1.5) / (fabs(sum) + 1.25);
    out[ME] = (u32)__double2loint(sum);
}
KERNEL(mod_power) {
    const u32 m = 998244353u;
    u32 x = word(in, 0) % m, y = 1 + ME;
    for (int r = 0; r < rounds; ++r) {
        y = (u32)((u64)y * (x | 3) % m);
        x = (u32)((u64)x * x % m);
    }
    out[ME] = x ^ y;
}

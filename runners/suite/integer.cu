KERNEL(lcg) {
    u32 x[4];
    for (int i = 0; i < 4; ++i) x[i] = word(in, i);
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i & 3] = x[i & 3] * 1664525u + 1013904223u;
    out[ME] = x[0] ^ x[1] ^ x[2] ^ x[3];
}
KERNEL(sad) {
    TILE u32 sum = 0, most = 0;
    const u32 me = word(in, 0);
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        const int d = (int)(AT(r) - me);
        sum += d < 0 ? -d : d, most = max(most, (u32)d + sum);
    }
    out[ME] = sum ^ most;
}
KERNEL(fixed_point) {
    TILE int a = word(in, 0), b = word(in, 1);
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        const int x = AT(r);
        a = __mulhi(a, x) + (x >> 3), b = (b << 1) - a + x;
    }
    out[ME] = a ^ b;
}

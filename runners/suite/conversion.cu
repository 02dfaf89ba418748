KERNEL(quantise) {
    TILE float sum = 0;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        const int q = min(max(__float2int_rn(FLOAT_AT(r) * 17.3f + sum), -127), 127);
        sum = 0.4f * (float)q;
    }
    out[ME] = __float_as_uint(sum);
}
KERNEL(bytes) {
    TILE float sum = 0;
#pragma unroll 2
    for (int r = 0; r < rounds; ++r) {
        const u32 x = AT(r);
        sum = 0.5f * sum + (float)(x & 255) + (float)(x >> 8 & 255) - (float)(x >> 16 & 255) * 0.5f + (float)(x >> 24);
    }
    out[ME] = __float_as_uint(sum);
}
KERNEL(pack) {
    TILE float sum = 0;
    u32 bits = 0;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        unsigned packed;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(FLOAT_AT(r)), "f"(sum));
        bits ^= packed;
        float low;
        asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(low) : "r"(packed));
        sum = low * 0.5f + 0.25f;
    }
    out[ME] = bits ^ __float_as_uint(sum);
}
KERNEL(widen) {
    TILE double sum = 0;
#pragma unroll 2
    for (int r = 0; r < rounds; ++r) {
        const double x = (double)FLOAT_AT(r);
        sum = 0.5 * sum + x;
        sum = (double)(float)sum;
    }
    out[ME] = (u32)__double2loint(sum);
}

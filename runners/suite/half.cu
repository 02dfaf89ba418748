#define THREE(name, ptx)                                                                           \
    __device__ __forceinline__ u32 name(u32 a, u32 b, u32 c) {                                      \
        u32 d;                                                                                     \
        asm(ptx " %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));                            \
        return d;                                                                                  \
    }
#define TWO(name, ptx)                                                                             \
    __device__ __forceinline__ u32 name(u32 a, u32 b) {                                             \
        u32 d;                                                                                     \
        asm(ptx " %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));                                        \
        return d;                                                                                  \
    }
THREE(fma_h, "fma.rn.f16x2") THREE(fma_b, "fma.rn.bf16x2")
TWO(add_h, "add.rn.f16x2") TWO(max_h, "max.f16x2") TWO(mul_h, "mul.rn.f16x2")
// 0.5 and -0.75 in both halves.
#define HALF 0x38003800u
#define MINUS 0xBA00BA00u
#define HALF_B 0x3F003F00u
#define MINUS_B 0xBF40BF40u
KERNEL(poly_f16) {
    TILE const u32 k = word(in, 0);
    u32 sum = k;
    for (int r = 0; r < rounds; ++r) {
        u32 p = AT(r);
#pragma unroll
        for (int i = 0; i < 8; ++i) p = fma_h(p, i & 1 ? HALF : MINUS, i & 2 ? k : sum);
        sum = fma_h(p, HALF, k);
        sum = mul_h(sum, HALF);
    }
    out[ME] = sum;
}
// Values that come to rest: what toggles is hardly anything.
KERNEL(converge_f16) {
    u32 x[4];
    for (int i = 0; i < 4; ++i) x[i] = word(in, i);
    const u32 k = word(in, 4);
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i & 3] = fma_h(x[i & 3], HALF, k);
    out[ME] = x[0] ^ x[1] ^ x[2] ^ x[3];
}
KERNEL(poly_bf16) {
    TILE const u32 k = word(in, 0);
    u32 sum = k;
    for (int r = 0; r < rounds; ++r) {
        u32 p = AT(r);
#pragma unroll
        for (int i = 0; i < 8; ++i) p = fma_b(p, i & 1 ? HALF_B : MINUS_B, i & 2 ? k : sum);
        sum = fma_b(fma_b(p, HALF_B, k), HALF_B, 0u);
    }
    out[ME] = sum;
}
KERNEL(relu_f16) {
    TILE const u32 a = word(in, 0), b = word(in, 1);
    u32 sum = 0;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) sum = mul_h(add_h(sum, max_h(fma_h(AT(r), a, b), 0u)), HALF);
    out[ME] = sum;
}
KERNEL(dot_f16) {
    TILE u32 s[4] = {0, 0, 0, 0};
    for (int r = 0; r < rounds; ++r) {
        const u32 x = AT(r), y = AT(r + 5);
#pragma unroll
        for (int i = 0; i < 4; ++i) s[i] = mul_h(fma_h(x, i & 1 ? y : x, s[i]), i & 2 ? HALF : MINUS);
    }
    out[ME] = s[0] ^ s[1] ^ s[2] ^ s[3];
}

// Two chains of tensor-core products a warp, few warps, and some arithmetic beside them.
#define MMA(NAME, INSTRUCTION)                                                                                 \
    KERNEL(NAME) {                                                                                             \
        u32 a[2][4], b[2][2];                                                                                  \
        float c[2][4], other = real(in, 12);                                                                   \
        for (int i = 0; i < 2; ++i) {                                                                          \
            for (int j = 0; j < 4; ++j) a[i][j] = word(in, i * 6 + j), c[i][j] = 0;                            \
            for (int j = 0; j < 2; ++j) b[i][j] = word(in, i * 6 + 4 + j);                                     \
        }                                                                                                      \
        for (int r = 0; r < rounds; ++r) {                                                                     \
            _Pragma("unroll") for (int i = 0; i < 2; ++i) asm volatile(                                        \
                INSTRUCTION " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                           \
                : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])                                   \
                : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[i][0]), "r"(b[i][1]));         \
            other = fmaf(other, -0.9f, 0.3f);                                                                  \
        }                                                                                                      \
        float sum = other;                                                                                     \
        for (int i = 0; i < 2; ++i)                                                                            \
            for (int j = 0; j < 4; ++j) sum += c[i][j];                                                        \
        out[ME] = __float_as_uint(sum);                                                                        \
    }
MMA(mma_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MMA(mma_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
MMA(mma_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
KERNEL(mma_s8) {
    u32 a[4], b[2];
    int c[2][4] = {};
    for (int j = 0; j < 4; ++j) a[j] = word(in, j);
    for (int j = 0; j < 2; ++j) b[j] = word(in, 4 + j);
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 2; ++i)
            asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+r"(c[i][0]), "+r"(c[i][1]), "+r"(c[i][2]), "+r"(c[i][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[i]), "r"(b[1 - i]));
    out[ME] = c[0][0] ^ c[0][1] ^ c[0][2] ^ c[0][3] ^ c[1][0] ^ c[1][1] ^ c[1][2] ^ c[1][3];
}
// As attention does: products, then exponentials of what they gave.
KERNEL(mma_exp) {
    u32 a[4], b[2];
    float c[4] = {}, sum = 0;
    for (int j = 0; j < 4; ++j) a[j] = word(in, j);
    for (int j = 0; j < 2; ++j) b[j] = word(in, 4 + j);
    for (int r = 0; r < rounds; ++r) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#pragma unroll
        for (int j = 0; j < 4; ++j) c[j] = __expf(-fabsf(c[j])), sum += c[j];
    }
    out[ME] = __float_as_uint(sum);
}

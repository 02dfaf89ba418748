// What moves the energy of an instruction beside its opcode: one kernel of each question, on words that differ by
// case. Behind suite/common.cuh. Word k of thread t is in[(k << 16) + t].
//
// Results must be read, or ptxas drops them: each instruction adds to its own result of four instructions ago. What
// floats add is so small beside it that the result stays as it is; (x & y) | d stays from the second pass on.
#define WORD(k) in[((k) << 16) + ME]
#define FLOAT(k) __uint_as_float(WORD(k))
#define DOUBLE(k) __hiloint2double(WORD(2 * (k)), WORD(2 * (k) + 1))

// Operands that alternate between two words each, N instructions a pass.
#define ALTERNATE(NAME, N, TYPE, REGISTER, LOAD, INSTRUCTION)                                           \
    KERNEL(NAME) {                                                                                      \
        TYPE x[2], y[2], d[4];                                                                          \
        for (int i = 0; i < 2; ++i) x[i] = LOAD(i), y[i] = LOAD(2 + i);                                 \
        for (int i = 0; i < 4; ++i) d[i] = LOAD(4 + (i & 1));                                           \
        for (int r = 0; r < rounds; ++r)                                                                \
            _Pragma("unroll") for (int i = 0; i < N; ++i) asm volatile(INSTRUCTION                      \
                                                                       : "+" REGISTER(d[i & 3])         \
                                                                       : REGISTER(x[i & 1]), REGISTER(y[i & 1])); \
        out[ME] = (u32)(d[0] + d[1] + d[2] + d[3]);                                                     \
    }
ALTERNATE(ffma, 64, float, "f", FLOAT, "fma.rn.f32 %0, %1, %2, %0;")
ALTERNATE(fadd, 64, float, "f", FLOAT, "add.rn.f32 %0, %1, %0; // %2")
ALTERNATE(imad, 64, u32, "r", WORD, "mad.lo.u32 %0, %1, %2, %0;")
ALTERNATE(lop3, 64, u32, "r", WORD, "lop3.b32 %0, %1, %2, %0, 0xEA;")
ALTERNATE(hfma2, 64, u32, "r", WORD, "fma.rn.f16x2 %0, %1, %2, %0;")
ALTERNATE(dfma, 64, double, "d", DOUBLE, "fma.rn.f64 %0, %1, %2, %0;")
// The same with two registers read in place of three.
ALTERNATE(two_registers, 64, float, "f", FLOAT, "fma.rn.f32 %0, %1, %1, %0; // %2")
// Loops of more and more code.
ALTERNATE(body1024, 1024, float, "f", FLOAT, "fma.rn.f32 %0, %1, %2, %0;")
ALTERNATE(body4096, 4096, float, "f", FLOAT, "fma.rn.f32 %0, %1, %2, %0;")
ALTERNATE(body10240, 10240, float, "f", FLOAT, "fma.rn.f32 %0, %1, %2, %0;")

#define R4(x) x x x x
#define R16(x) R4(R4(x))
#define FOUR(p, y)                                                                                                   \
    p "fma.rn.f32 %0, %4, " y ", %0;" p "fma.rn.f32 %1, %4, " y ", %1;" p "fma.rn.f32 %2, %4, " y ", %2;" p \
      "fma.rn.f32 %3, %4, " y ", %3;"
#define OPERANDS "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "f"(x), "f"(y), "f"(z), "r"(on)
#define SOME(NAME, PASS)                                                                                \
    KERNEL(NAME) {                                                                                      \
        const float x = FLOAT(0), y = FLOAT(2), z = FLOAT(3);                                           \
        float d[4];                                                                                     \
        for (int i = 0; i < 4; ++i) d[i] = FLOAT(4);                                                    \
        /* Which threads take part. */                                                                  \
        const u32 on = WORD(6);                                                                         \
        for (int r = 0; r < rounds; ++r) PASS                                                           \
        out[ME] = __float_as_uint(d[0] + d[1] + d[2] + d[3]);                                           \
    }
SOME(predicated, asm volatile("{.reg .pred p; setp.ne.u32 p, %7, 0; // %6\n" R16(FOUR("@p ", "%5")) "}" : OPERANDS);)
SOME(divergent, {
    if (on) asm volatile(R16(FOUR("", "%5")) "// %6 %7\n" : OPERANDS);
    else asm volatile(R16(FOUR("", "%6")) "// %5 %7\n" : OPERANDS);
})
// Each instruction waits for the one before it.
extern "C" __global__ void chain(const u32* __restrict__ in, u32* __restrict__ out, int rounds) {
    float d = FLOAT(4);
    const float x = FLOAT(0), y = FLOAT(2);
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 64; ++i) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(d) : "f"(x), "f"(y));
    out[ME] = __float_as_uint(d);
}

#define QUARTER(a, b, c, d)                                  \
    a += b, d = rotl(d ^ a, 16), c += d, b = rotl(b ^ c, 12); \
    a += b, d = rotl(d ^ a, 8), c += d, b = rotl(b ^ c, 7);
KERNEL(chacha) {
    u32 x[16];
    for (int i = 0; i < 16; ++i) x[i] = word(in, i);
    for (int r = 0; r < rounds; ++r) {
        QUARTER(x[0], x[4], x[8], x[12]) QUARTER(x[1], x[5], x[9], x[13])
        QUARTER(x[2], x[6], x[10], x[14]) QUARTER(x[3], x[7], x[11], x[15])
        QUARTER(x[0], x[5], x[10], x[15]) QUARTER(x[1], x[6], x[11], x[12])
        QUARTER(x[2], x[7], x[8], x[13]) QUARTER(x[3], x[4], x[9], x[14])
    }
    u32 sum = 0;
    for (int i = 0; i < 16; ++i) sum ^= x[i];
    out[ME] = sum;
}
KERNEL(xtea) {
    u32 a = word(in, 0), b = word(in, 1), sum = 0;
    const u32 key[4] = {word(in, 2), word(in, 3), word(in, 4), word(in, 5)};
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            a += ((b << 4 ^ b >> 5) + b) ^ (sum + key[i]);
            sum += 0x9e3779b9u;
            b += ((a << 4 ^ a >> 5) + a) ^ (sum + key[(i + 1) & 3]);
        }
    out[ME] = a ^ b;
}
KERNEL(speck) {
    TILE u64 a = (u64)word(in, 0) << 32 | word(in, 1), b = (u64)word(in, 2) << 32 | word(in, 3);
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        a = (rotl64(a, 56) + b) ^ ((const u64*)tile)[(r * 16 + threadIdx.x) & 511];
        b = rotl64(b, 3) ^ a;
    }
    out[ME] = (u32)(a ^ b ^ b >> 32);
}
KERNEL(sha256) {
    u32 s[8], w[16];
    for (int i = 0; i < 8; ++i) s[i] = 0x6a09e667u * (i + 1);
    for (int i = 0; i < 16; ++i) w[i] = word(in, i);
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const u32 e = s[(20 - i) & 7], a = s[(16 - i) & 7];
            const u32 t = s[(23 - i) & 7] + (rotl(e, 26) ^ rotl(e, 21) ^ rotl(e, 7)) +
                          ((e & s[(21 - i) & 7]) ^ (~e & s[(22 - i) & 7])) + 0x428a2f98u + w[i];
            const u32 b = s[(17 - i) & 7], c = s[(18 - i) & 7];
            s[(19 - i) & 7] += t;
            s[(23 - i) & 7] = t + (rotl(a, 30) ^ rotl(a, 19) ^ rotl(a, 10)) + ((a & b) ^ (a & c) ^ (b & c));
            const u32 x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i] += (rotl(x, 25) ^ rotl(x, 14) ^ x >> 3) + w[(i + 9) & 15] + (rotl(y, 15) ^ rotl(y, 13) ^ y >> 10);
        }
    u32 sum = 0;
    for (int i = 0; i < 8; ++i) sum ^= s[i];
    out[ME] = sum;
}

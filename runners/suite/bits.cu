KERNEL(hamming) {
    TILE const u32 x = word(in, 0), y = word(in, 1);
    u32 sum = 0;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        const u32 v = AT(r);
        sum += __popc(v ^ x) + __popc(v & y);
    }
    out[ME] = sum;
}
KERNEL(reverse) {
    TILE u32 sum = 0;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) {
        const u32 v = AT(r) + sum;
        sum += __brev(v) ^ __clz(v) ^ __ffs(v);
    }
    out[ME] = sum;
}
// A matrix of 8 x 8 bits, turned.
KERNEL(transpose8) {
    TILE u64 sum = 0;
    for (int r = 0; r < rounds; ++r) {
        u64 x = ((const u64*)tile)[(r * 16 + threadIdx.x) & 511] + sum, t;
        t = (x ^ x >> 7) & 0x00AA00AA00AA00AAull, x ^= t ^ t << 7;
        t = (x ^ x >> 14) & 0x0000CCCC0000CCCCull, x ^= t ^ t << 14;
        t = (x ^ x >> 28) & 0x00000000F0F0F0F0ull, x ^= t ^ t << 28;
        sum ^= x;
    }
    out[ME] = (u32)(sum ^ sum >> 32);
}
KERNEL(morton) {
    TILE u32 sum = 0;
#pragma unroll 2
    for (int r = 0; r < rounds; ++r) {
        u32 x = (AT(r) + sum) & 0xffff;
        x = (x | x << 8) & 0x00ff00ff, x = (x | x << 4) & 0x0f0f0f0f;
        x = (x | x << 2) & 0x33333333, x = (x | x << 1) & 0x55555555;
        sum += x;
    }
    out[ME] = sum;
}
// Game of life on 32 cells a word: full adders of bits.
KERNEL(life) {
    u32 row[4];
    for (int i = 0; i < 4; ++i) row[i] = word(in, i);
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 a = row[(i + 3) & 3], b = row[i], c = row[(i + 1) & 3];
            const u32 al = rotl(a, 1), ar = rotl(a, 31), bl = rotl(b, 1), br = rotl(b, 31), cl = rotl(c, 1), cr = rotl(c, 31);
            const u32 s1 = al ^ a ^ ar, t1 = (al & a) | (ar & (al ^ a)), s2 = cl ^ c ^ cr, t2 = (cl & c) | (cr & (cl ^ c));
            const u32 s3 = bl ^ br, t3 = bl & br, one = s1 ^ s2 ^ s3, t4 = (s1 & s2) | (s3 & (s1 ^ s2));
            const u32 two = t1 ^ t2 ^ t3 ^ t4, four = (t1 & t2) | (t3 & t4) | ((t1 ^ t2) & (t3 ^ t4));
            row[i] = (two & ~four & (one | b)) ^ rotl(b, 5);
        }
    out[ME] = row[0] ^ row[1] ^ row[2] ^ row[3];
}

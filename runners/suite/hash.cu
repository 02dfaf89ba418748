// Hashes of a stream of words.
KERNEL(murmur3) {
    TILE u32 h = ME;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r) h = rotl(h ^ rotl(AT(r) * 0xcc9e2d51u, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
    out[ME] = h;
}
KERNEL(xxhash) {
    TILE u32 v[4] = {ME, ME + 1, ME + 2, ME + 3};
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = rotl(v[i] + AT(4 * r + i) * 2246822519u, 13) * 2654435761u;
    out[ME] = rotl(v[0], 1) + rotl(v[1], 7) + rotl(v[2], 12) + rotl(v[3], 18);
}
KERNEL(fnv) {
    TILE u32 h = 2166136261u ^ ME;
    for (int r = 0; r < rounds; ++r) {
        const u32 x = AT(r);
#pragma unroll
        for (int i = 0; i < 32; i += 8) h = (h ^ (x >> i & 255)) * 16777619u;
    }
    out[ME] = h;
}
KERNEL(jenkins) {
    TILE u32 a = ME, b = ME + 1, c = ME + 2;
    for (int r = 0; r < rounds; ++r) {
        a += AT(3 * r), b += AT(3 * r + 1), c += AT(3 * r + 2);
        a -= c, a ^= rotl(c, 4), c += b;
        b -= a, b ^= rotl(a, 6), a += c;
        c -= b, c ^= rotl(b, 8), b += a;
        a -= c, a ^= rotl(c, 16), c += b;
        b -= a, b ^= rotl(a, 19), a += c;
        c -= b, c ^= rotl(b, 4), b += a;
    }
    out[ME] = a ^ b ^ c;
}
KERNEL(crc32) {
    TILE u32 c = ME;
    for (int r = 0; r < rounds; ++r) {
        c ^= AT(r);
#pragma unroll
        for (int i = 0; i < 16; ++i) c = c >> 1 ^ (0xedb88320u & -(c & 1));
    }
    out[ME] = c;
}

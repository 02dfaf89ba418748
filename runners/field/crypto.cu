// SHA-3's permutation, which takes in 17 words of 64 bits a round.
KERNEL(keccak) {
    TILE u64 s[25] = {};
    const int turn[24] = {1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44};
    const int to[24] = {10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1};
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 17; ++i) s[i] ^= ((const u64*)tile)[(17 * r + i + threadIdx.x) & 511];
#pragma unroll 1
        for (int k = 0; k < 24; ++k) {
            u64 c[5], t = 0;
#pragma unroll
            for (int x = 0; x < 5; ++x) c[x] = s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20];
#pragma unroll
            for (int x = 0; x < 5; ++x) {
                t = c[(x + 4) % 5] ^ rotl64(c[(x + 1) % 5], 1);
#pragma unroll
                for (int y = 0; y < 25; y += 5) s[y + x] ^= t;
            }
            t = s[1];
#pragma unroll
            for (int i = 0; i < 24; ++i) {
                const u64 next = s[to[i]];
                s[to[i]] = rotl64(t, turn[i]), t = next;
            }
#pragma unroll
            for (int y = 0; y < 25; y += 5) {
#pragma unroll
                for (int x = 0; x < 5; ++x) c[x] = s[y + x];
#pragma unroll
                for (int x = 0; x < 5; ++x) s[y + x] = c[x] ^ (~c[(x + 1) % 5] & c[(x + 2) % 5]);
            }
            s[0] ^= 0x8000000080008081ull * (k + 1);
        }
    }
    out[ME] = (u32)(s[0] ^ s[7] ^ s[24]);
}
// AES by tables: four lookups a column in shared memory, ten rounds a block.
KERNEL(aes) {
    __shared__ u32 table[256];
    table[threadIdx.x] = (threadIdx.x * 0x9E3779B1u) ^ (threadIdx.x << 24 | threadIdx.x * 0x00631b00u);
    __syncthreads();
    u32 sum = 0;
    for (int r = 0; r < rounds; ++r) {
        u32 s[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) s[i] = word(in, 4 * r + i);
#pragma unroll 2
        for (int k = 0; k < 10; ++k) {
            u32 t[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                t[i] = table[s[i] & 255] ^ rotl(table[s[(i + 1) & 3] >> 8 & 255], 8) ^ rotl(table[s[(i + 2) & 3] >> 16 & 255], 16)
                    ^ rotl(table[s[(i + 3) & 3] >> 24], 24) ^ (0x01020408u * (k + i));
#pragma unroll
            for (int i = 0; i < 4; ++i) s[i] = t[i];
        }
        sum ^= s[0] ^ s[1] ^ s[2] ^ s[3];
    }
    out[ME] = sum;
}

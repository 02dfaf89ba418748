// LZ4's search: the last place where the same four bytes began, and how far both go on alike.
KERNEL(lz_match) {
    TILE __shared__ unsigned short last[4096];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) last[i] = i & 4095;
    __syncthreads();
    const unsigned char* byte = (const unsigned char*)tile;
    u32 saved = 0, at = threadIdx.x * 16;
    for (int r = 0; r < rounds; ++r) {
        at = (at + 1) & 4095;
        const u32 word_at = at >> 2, four = __funnelshift_r(tile[word_at], tile[(word_at + 1) & 1023], 8 * (at & 3));
        const u32 slot = four * 2654435761u >> 20, from = last[slot];
        last[slot] = at;
        u32 alike = 0;
        while (alike < 32 && from != at && byte[(from + alike) & 4095] == byte[(at + alike) & 4095]) ++alike;
        if (alike >= 4) saved += alike - 3, at = (at + alike) & 4095;
    }
    out[ME] = saved;
}
// Huffman codes of up to eight bits, decoded by a table of 256 places.
KERNEL(huffman) {
    __shared__ u32 code[256];
    // A symbol and its length: half of all have one bit less than the next.
    code[threadIdx.x] = min(__clz(threadIdx.x << 24 | 0x800000u) + 1, 8) << 8 | (threadIdx.x * 167 & 255);
    __syncthreads();
    u64 bits = word(in, 0);
    int left = 32, next = 1;
    u32 sum = 0;
    for (int r = 0; r < rounds; ++r) {
        const u32 found = code[bits & 255], length = found >> 8;
        sum = sum * 3 + (found & 255), bits >>= length, left -= length;
        if (left < 8) bits |= (u64)word(in, next++) << left, left += 32;
    }
    out[ME] = sum;
}
// JPEG's cosine transform of eight values, and what rounding leaves of it.
KERNEL(cosines) {
    TILE float sum = 0;
    for (int r = 0; r < rounds; ++r) {
        float x[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = FLOAT_AT(8 * r + i) * 255.0f;
        const float a = x[0] + x[7], b = x[1] + x[6], c = x[2] + x[5], d = x[3] + x[4];
        const float e = x[0] - x[7], f = x[1] - x[6], g = x[2] - x[5], h = x[3] - x[4];
        const float y[8] = {
            a + b + c + d, 1.3870f * e + 1.1759f * f + 0.7857f * g + 0.2759f * h,
            1.3066f * (a - d) + 0.5412f * (b - c), 1.1759f * e - 0.2759f * f - 1.3870f * g - 0.7857f * h,
            a - b - c + d, 0.7857f * e - 1.3870f * f + 0.2759f * g + 1.1759f * h,
            0.5412f * (a - d) - 1.3066f * (b - c), 0.2759f * e - 0.7857f * f + 1.1759f * g - 1.3870f * h};
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += rintf(y[i] * (1.0f / (16 + 10 * i)));
    }
    out[ME] = __float_as_uint(sum);
}

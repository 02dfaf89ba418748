// Rodinia's needle: two sequences aligned along diagonals, a lane for each letter of one.
KERNEL(needle) {
    __shared__ int score[32][32];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) score[i >> 5][i & 31] = (in[i] & 15) - 8 + (i % 33 == 0 ? 12 : 0);
    __syncthreads();
    const u32 mine = word(in, 1) & 31;
    int here = 0, above = 0, best = 0;
    u32 letter = 0;
    for (int r = 0; r < rounds; ++r) {
        const u32 fresh = word(in, r >> 2) >> 8 * (r & 3) & 31;
        const int left = __shfl_up_sync(~0u, here, 1);
        letter = __shfl_up_sync(~0u, letter, 1);
        if ((threadIdx.x & 31) == 0) letter = fresh;
        const int now = max(max(left - 10, here - 10), above + score[mine][letter]);
        above = left, here = now, best = max(best, now);
    }
    out[ME] = best;
}
// Myers' edit distance, as edlib has it: 32 rows of the matrix are the bits of a word.
KERNEL(myers) {
    __shared__ u32 equal[256];
    equal[threadIdx.x] = in[threadIdx.x] & in[threadIdx.x + 256];
    __syncthreads();
    u32 pv = ~0u, mv = 0, least = 32, score = 32;
    for (int r = 0; r < rounds; ++r) {
        const u32 four = word(in, r);
#pragma unroll
        for (int i = 0; i < 32; i += 8) {
            const u32 eq = equal[four >> i & 255], xv = eq | mv, xh = (((eq & pv) + pv) ^ pv) | eq;
            u32 ph = mv | ~(xh | pv), mh = pv & xh;
            score += (ph >> 31) - (mh >> 31);
            ph = ph << 1 | 1, mh <<= 1;
            pv = mh | ~(xv | ph), mv = ph & xv, least = min(least, score);
        }
    }
    out[ME] = least;
}

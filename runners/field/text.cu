// A search for a pattern of 20 letters, bit by bit (shift-and): a table in shared memory for each letter.
KERNEL(shift_and) {
    __shared__ u32 accepts[256];
    accepts[threadIdx.x] = in[threadIdx.x] ^ threadIdx.x * 0x01010101u;
    __syncthreads();
    u32 state = 0, found = 0;
    for (int r = 0; r < rounds; ++r) {
        const u32 four = word(in, r);
#pragma unroll
        for (int i = 0; i < 32; i += 8) {
            state = (state << 1 | 1) & accepts[four >> i & 255];
            found += state >> 19 & 1;
        }
    }
    out[ME] = found;
}
// Counts of words: letters are hashed, and a blank ends a word, which a table in shared memory counts.
KERNEL(word_count) {
    __shared__ u32 count[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) count[i] = 0;
    __syncthreads();
    u32 h = 0;
    for (int r = 0; r < rounds; ++r) {
        const u32 four = word(in, r);
#pragma unroll
        for (int i = 0; i < 32; i += 8) {
            const u32 letter = four >> i & 255;
            if ((letter | 32) - 'a' < 26u) h = (h ^ letter) * 16777619u;
            else if (h) atomicAdd(&count[h >> 22], 1u), h = 0;
        }
    }
    __syncthreads();
    out[ME] = count[threadIdx.x] + h;
}

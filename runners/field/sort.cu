// The CUDA samples' bitonic sort of 1,024 keys of a block.
KERNEL(bitonic) {
    __shared__ u32 key[1024];
    u32 sum = 0;
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) key[256 * i + threadIdx.x] = word(in, 4 * r + i);
        for (int size = 2; size <= 1024; size <<= 1)
            for (int stride = size >> 1; stride; stride >>= 1) {
                __syncthreads();
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int t = 256 * i + threadIdx.x, at = 2 * t - (t & (stride - 1));
                    const u32 a = key[at], b = key[at + stride];
                    const bool swap = (a > b) == ((t & (size >> 1)) == 0);
                    key[at] = swap ? b : a, key[at + stride] = swap ? a : b;
                }
            }
        __syncthreads();
        sum += key[threadIdx.x];
        __syncthreads();
    }
    out[ME] = sum;
}
// CUB's radix sort: where each key of a warp goes by one digit of four bits, by votes.
KERNEL(rank) {
    __shared__ u32 count[8][16];
    u32 sum = 0;
    const u32 lane = threadIdx.x & 31, before = (1u << lane) - 1;
    u32* mine = count[threadIdx.x >> 5];
    if (lane < 16) mine[lane] = 0;
    __syncwarp();
    for (int r = 0; r < rounds; ++r) {
        const u32 key = word(in, r);
#pragma unroll
        for (int shift = 0; shift < 32; shift += 8) {
            const u32 digit = key >> shift & 15;
            u32 same = ~0u;
#pragma unroll
            for (int b = 0; b < 4; ++b) {
                const u32 vote = __ballot_sync(~0u, digit >> b & 1);
                same &= digit >> b & 1 ? vote : ~vote;
            }
            const u32 base = mine[digit];
            __syncwarp();
            if ((same & before) == 0) mine[digit] = base + __popc(same);
            __syncwarp();
            sum += base + __popc(same & before);
        }
    }
    out[ME] = sum;
}
// SHOC's scan: running sums of tiles of 4,096 words, each by a block.
KERNEL(prefix) {
    __shared__ u32 part[8];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int r = 0; r < rounds; ++r) {
        const u32 place = r * gridDim.x + blockIdx.x;
        if (place >= 65536) break;
        uint4 v[4];
        u32 own = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            v[i] = ((const uint4*)in)[(place << 10) + 256 * i + threadIdx.x];
            v[i].x += own, v[i].y += v[i].x, v[i].z += v[i].y, v[i].w += v[i].z, own = v[i].w;
        }
        u32 sum = own;
#pragma unroll
        for (int k = 1; k < 32; k <<= 1) {
            const u32 left = __shfl_up_sync(~0u, sum, k);
            if (lane >= k) sum += left;
        }
        if (lane == 31) part[warp] = sum;
        __syncthreads();
        sum -= own;
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += k < warp ? part[k] : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            v[i].x += sum, v[i].y += sum, v[i].z += sum, v[i].w += sum;
            ((uint4*)out)[(place << 10) + 256 * i + threadIdx.x] = v[i];
        }
    }
}

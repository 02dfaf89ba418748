#define VERTICES (1u << 22)
// A step of shortest paths: 2^22 vertices tell their eight neighbours, which are anywhere.
KERNEL(relax) {
    for (int r = 0; r < rounds; ++r) {
        const u32 edge = r * gridDim.x * blockDim.x + ME;
        if (edge >= 8 * VERTICES) break;
        const u32 from = edge >> 3, link = in[edge];
        atomicMin(out + (link & (VERTICES - 1)), from + (link >> 28));
    }
}
// A step of PageRank: each of 2^22 vertices adds up the ranks of eight.
KERNEL(page_rank) {
    const u32* rank = in + 8 * VERTICES;
    for (int r = 0; r < rounds; ++r) {
        const u32 vertex = r * gridDim.x * blockDim.x + ME;
        if (vertex >= VERTICES) break;
        const uint4 a = ((const uint4*)in)[2 * vertex], b = ((const uint4*)in)[2 * vertex + 1];
        const u32 link[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += (rank[link[k] & (VERTICES - 1)] >> 8) * (1 / 16777216.f);
        out[vertex] = __float_as_uint(0.15f + 0.85f * sum);
    }
}
// Triangles: two sorted lists of neighbours, walked side by side.
KERNEL(triangles) {
    TILE u32 i = threadIdx.x, j = 7 * threadIdx.x, a = 0, b = 0, both = 0;
    for (int r = 0; r < rounds; ++r) {
        if (a < b) a += 1 + (tile[i++ & 1023] & 7);
        else if (b < a) b += 1 + (tile[j++ & 1023] & 7);
        else ++both, a += 1 + (tile[i++ & 1023] & 7), b += 1 + (tile[j++ & 1023] & 7);
    }
    out[ME] = both;
}

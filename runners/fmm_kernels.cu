// The U-list phase of a fast multipole method (Choi and Vuduc 2012, algorithm 5.1), in variants.
//
// Leaves of Q points lie on a periodic cube of 2^bits leaves a side. A block takes one leaf; each of its threads takes
// R target points, and goes through the points of the 26 leaves around. An interaction is 11 flops as the paper counts
// them: three differences, a square and two multiply-adds, one reciprocal square root, one multiply-add.

enum Source { L2 = 0, L1 = 1, SHARED = 2 };

template <int S>
__device__ __forceinline__ float4 load(const float4* at) {
    return S == L2 ? __ldcg(at) : __ldca(at);
}

template <int Q, int R, int U, int S>
__global__ void __launch_bounds__(Q / R) ulist(const float4* __restrict__ points, float* __restrict__ potential, int bits) {
    constexpr int threads = Q / R;
    __shared__ float4 tile[S == SHARED ? Q : 1];
    const int side = 1 << bits, last = side - 1, leaf = blockIdx.x;
    const int x = leaf & last, y = leaf >> bits & last, z = leaf >> 2 * bits & last;
    float4 target[R];
    float sum[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        target[r] = points[leaf * Q + r * threads + threadIdx.x];
        sum[r] = 0;
    }
#pragma unroll 1
    for (int neighbour = 0; neighbour < 27; ++neighbour) {
        if (neighbour == 13) continue;
        const int to_x = x + neighbour % 3 - 1 & last, to_y = y + neighbour / 3 % 3 - 1 & last;
        const int to_z = z + neighbour / 9 - 1 & last;
        const float4* const source = points + (to_x + (to_y << bits) + (to_z << 2 * bits)) * Q;
        if (S == SHARED) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < R; ++i) tile[i * threads + threadIdx.x] = __ldcg(source + i * threads + threadIdx.x);
            __syncthreads();
        }
#pragma unroll 1
        for (int first = 0; first < Q; first += U) {
#pragma unroll
            for (int j = 0; j < U; ++j) {
                const float4 other = S == SHARED ? tile[first + j] : load<S>(source + first + j);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    const float dx = target[r].x - other.x, dy = target[r].y - other.y, dz = target[r].z - other.z;
                    sum[r] += other.w * rsqrtf(dx * dx + dy * dy + dz * dz);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) potential[leaf * Q + r * threads + threadIdx.x] = sum[r];
}

// Accelerations of N bodies by each other (all pairs, softened): a thread has BODIES bodies, and a block goes
// through the others in tiles of BLOCK in shared memory.
// Macros: N, BLOCK, BODIES, UNROLL.

constexpr int unrolled = UNROLL;  // a pragma takes no macro

extern "C" __global__ void __launch_bounds__(BLOCK)
nbody(const float4* __restrict__ body, float4* __restrict__ acceleration)
{
    __shared__ float4 tile[BLOCK];
    const int first = blockIdx.x * BLOCK * BODIES + threadIdx.x;
    float4 at[BODIES];
    float3 sum[BODIES];
#pragma unroll
    for (int b = 0; b < BODIES; ++b) {
        at[b] = body[first + b * BLOCK];
        sum[b] = make_float3(0.0f, 0.0f, 0.0f);
    }
#pragma unroll 1
    for (int n = 0; n < N / BLOCK; ++n) {
        tile[threadIdx.x] = body[n * BLOCK + threadIdx.x];
        __syncthreads();
#pragma unroll unrolled
        for (int j = 0; j < BLOCK; ++j) {
            const float4 other = tile[j];
#pragma unroll
            for (int b = 0; b < BODIES; ++b) {
                const float dx = other.x - at[b].x, dy = other.y - at[b].y, dz = other.z - at[b].z;
                const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-2f);
                const float weight = other.w * inverse * inverse * inverse;
                sum[b].x += dx * weight;
                sum[b].y += dy * weight;
                sum[b].z += dz * weight;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int b = 0; b < BODIES; ++b)
        acceleration[first + b * BLOCK] = make_float4(sum[b].x, sum[b].y, sum[b].z, 0.0f);
}

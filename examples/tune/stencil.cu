// Five-point stencil on a grid of NX x NY: a thread computes ROWS points of a column.
// Macros: NX, NY, BX, BY, ROWS, SHARED (1: a block's tile of the input is in shared memory).

extern "C" __global__ void __launch_bounds__(BX * BY)
stencil(const float* __restrict__ in, float* __restrict__ out)
{
    const int x = blockIdx.x * BX + threadIdx.x;
    const int y0 = (blockIdx.y * BY + threadIdx.y) * ROWS;
#if SHARED
    __shared__ float tile[BY * ROWS + 2][BX + 2];
    const int top = blockIdx.y * BY * ROWS - 1, left = blockIdx.x * BX - 1;
#pragma unroll
    for (int n = 0; n < (BY * ROWS + 2 + BY - 1) / BY; ++n) {
        const int row = n * BY + threadIdx.y;
        if (row < BY * ROWS + 2) {
            const int gy = min(max(top + row, 0), NY - 1);
            tile[row][threadIdx.x] = in[gy * NX + min(max(left + (int)threadIdx.x, 0), NX - 1)];
            if (threadIdx.x < 2)
                tile[row][threadIdx.x + BX] = in[gy * NX + min(left + BX + (int)threadIdx.x, NX - 1)];
        }
    }
    __syncthreads();
#define AT(dx, dy) tile[threadIdx.y * ROWS + r + 1 + (dy)][threadIdx.x + 1 + (dx)]
#else
#define AT(dx, dy) in[(y0 + r + (dy)) * NX + x + (dx)]
#endif
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int y = y0 + r;
        if (x > 0 && x < NX - 1 && y > 0 && y < NY - 1)
            out[y * NX + x] = 0.5f * AT(0, 0) + 0.125f * (AT(-1, 0) + AT(1, 0) + AT(0, -1) + AT(0, 1));
        else if (x < NX && y < NY)
            out[y * NX + x] = 0.0f;
    }
}

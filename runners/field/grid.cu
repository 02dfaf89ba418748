// Rodinia's hotspot: heat of a chip under its blocks' power, step by step on a tile of 32 x 32.
KERNEL(hotspot) {
    TILE float* heat = (float*)tile;
    float power[4], now[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) power[i] = 0.001f * real(in, 7 + i);
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int c = 256 * i + threadIdx.x, row = c & ~31;
            const float t = heat[c], up = heat[(c - 32) & 1023], down = heat[(c + 32) & 1023];
            const float left = heat[row | ((c - 1) & 31)], right = heat[row | ((c + 1) & 31)];
            now[i] = t + 0.1f * (power[i] + (up + down - 2 * t) * 0.5f + (left + right - 2 * t) * 0.4f + (0.8f - t) * 0.01f);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; ++i) heat[256 * i + threadIdx.x] = now[i];
        __syncthreads();
    }
    out[ME] = __float_as_uint(now[0] + now[1] + now[2] + now[3]);
}
// Rodinia's pathfinder: the cheapest way down a grid, row by row.
KERNEL(pathfinder) {
    __shared__ u32 cost[258];
    u32 mine = word(in, 0) & 255;
    for (int r = 0; r < rounds; ++r) {
        cost[threadIdx.x + 1] = mine;
        if (threadIdx.x == 0) cost[0] = cost[257] = 0x7fffffff;
        __syncthreads();
        mine = min(min(cost[threadIdx.x], cost[threadIdx.x + 2]), mine) + (word(in, r) & 255);
        __syncthreads();
    }
    out[ME] = mine;
}
// Rodinia's srad: diffusion that stops at the edges of an image, two passes a step.
KERNEL(srad) {
    TILE __shared__ float slow[1024];
    const float* shade = (const float*)tile;
    float sum = 0;
    for (int r = 0; r < rounds; ++r) {
        const float q0 = 0.05f + 1e-6f * r;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int c = 256 * i + threadIdx.x, row = c & ~31;
            const float j = shade[c] + 2.0f;
            const float n = shade[(c - 32) & 1023] + 2.0f - j, s = shade[(c + 32) & 1023] + 2.0f - j;
            const float w = shade[row | ((c - 1) & 31)] + 2.0f - j, e = shade[row | ((c + 1) & 31)] + 2.0f - j;
            const float g = (n * n + s * s + w * w + e * e) / (j * j), l = (n + s + w + e) / j;
            const float top = 0.5f * g - 0.0625f * (l * l), bottom = 1 + 0.25f * l;
            const float q = top / (bottom * bottom + 1e-6f);
            slow[c] = __saturatef(1.0f / (1.0f + (q - q0) / (q0 * (1 + q0))));
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int c = 256 * i + threadIdx.x, row = c & ~31;
            const float j = shade[c], d = slow[(c + 32) & 1023] * (shade[(c + 32) & 1023] - j) + slow[c] * (shade[(c - 32) & 1023] - j)
                + slow[row | ((c + 1) & 31)] * (shade[row | ((c + 1) & 31)] - j) + slow[c] * (shade[row | ((c - 1) & 31)] - j);
            sum += j + 0.125f * d;
        }
        __syncthreads();
    }
    out[ME] = __float_as_uint(sum);
}
// Parboil's lbm, in two dimensions: nine densities of 2^24 cells stream and collide.
#define CELLS (1u << 24)
KERNEL(lbm) {
    const float weight[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
    const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    for (int r = 0; r < rounds; ++r) {
        const u32 cell = r * gridDim.x * blockDim.x + ME;
        if (cell >= CELLS) break;
        float f[9], rho = 0, ux = 0, uy = 0;
#pragma unroll
        for (int k = 0; k < 9; ++k) {
            const u32 from = (cell - cx[k] - 4096 * cy[k]) & (CELLS - 1);
            f[k] = weight[k] * (1 + 0.01f * __uint_as_float(in[k * CELLS + from]));
            rho += f[k], ux += cx[k] * f[k], uy += cy[k] * f[k];
        }
        ux /= rho, uy /= rho;
        const float u2 = 1.5f * (ux * ux + uy * uy);
#pragma unroll
        for (int k = 0; k < 9; ++k) {
            const float cu = 3 * (cx[k] * ux + cy[k] * uy), still = weight[k] * rho * (1 + cu + 0.5f * cu * cu - u2);
            out[k * CELLS + cell] = __float_as_uint(f[k] + 0.6f * (still - f[k]));
        }
    }
}
// PolyBench's fdtd-2d: both electric fields of a grid of 8192 x 8192, from the magnetic one.
#define POINTS (1u << 26)
KERNEL(fdtd) {
    const float *ex = (const float*)in, *ey = ex + POINTS, *hz = ey + POINTS;
    float *ex1 = (float*)out, *ey1 = ex1 + POINTS;
    for (int r = 0; r < rounds; ++r) {
        const u32 at = r * gridDim.x * blockDim.x + ME;
        if (at >= POINTS) break;
        const float h = hz[at];
        ey1[at] = ey[at] - 0.5f * (h - hz[(at - 8192) & (POINTS - 1)]);
        ex1[at] = ex[at] - 0.5f * (h - hz[(at - 1) & (POINTS - 1)]);
    }
}

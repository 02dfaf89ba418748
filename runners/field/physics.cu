// SHOC's md: forces of Lennard and Jones from neighbours nearer than a radius.
KERNEL(lennard_jones) {
    const float4* body = (const float4*)in;
    const u32 me = ME & (MASK >> 2), near = me & ~1023u;
    const float4 p = body[me];
    float fx = 0, fy = 0, fz = 0;
#pragma unroll 2
    for (int r = 0; r < rounds; ++r) {
        const float4 q = body[near | ((me + r * 40503u) & 1023)];
        const float x = p.x - q.x, y = p.y - q.y, z = p.z - q.z, d2 = x * x + y * y + z * z + 1e-3f;
        if (d2 < 2.0f) {
            const float i2 = 1.0f / d2, i6 = i2 * i2 * i2, f = i2 * i6 * (1.5f * i6 - 2.0f);
            fx += x * f, fy += y * f, fz += z * f;
        }
    }
    out[ME] = __float_as_uint(fx + fy + fz);
}
// Lattice QCD: products of complex matrices of 3 x 3, in f64.
KERNEL(su3) {
    TILE const double2* field = (const double2*)tile;
    double2 v[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) v[i] = make_double2(real64(in, 2 * i), real64(in, 2 * i + 1));
    for (int r = 0; r < rounds; ++r) {
        double2 w[3] = {};
#pragma unroll
        for (int i = 0; i < 3; ++i)
#pragma unroll
            for (int j = 0; j < 3; ++j) {
                const double2 u = field[(9 * r + 3 * i + j + threadIdx.x) & 255];
                w[i].x += u.x * v[j].x - u.y * v[j].y, w[i].y += u.x * v[j].y + u.y * v[j].x;
            }
#pragma unroll
        for (int i = 0; i < 3; ++i) v[i].x = 0.25 * w[i].x + 0.5, v[i].y = 0.25 * w[i].y - 0.5;
    }
    out[ME] = (u32)__double2ll_rn(v[0].x + v[1].y + v[2].x);
}
// The CUDA samples' binomial options: a tree of 256 prices folded to its root.
KERNEL(binomial) {
    __shared__ float price[257];
    float sum = 0;
    for (int r = 0; r < rounds; ++r) {
        price[threadIdx.x] = fmaxf(30.0f * __expf(0.02f * (2.0f * threadIdx.x - 256.0f)) * (1 + 0.1f * real(in, r)) - 29.0f, 0.0f);
        __syncthreads();
#pragma unroll 2
        for (int left = 255; left > 0; --left) {
            const float up = price[threadIdx.x + 1], down = price[threadIdx.x];
            __syncthreads();
            if (threadIdx.x < left) price[threadIdx.x] = 0.507f * up + 0.492f * down;
            __syncthreads();
        }
        sum += price[0];
    }
    out[ME] = __float_as_uint(sum);
}

// Kernels of runners/validate_kernels.py that no library has; compiled by NVRTC, so no header is included.

// ---- judged: the model is never fitted to these ----

extern "C" __global__ void nbody(const float4* __restrict__ body, float4* __restrict__ force, int n) {
    __shared__ float4 tile[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 me = body[i];
    float ax = 0, ay = 0, az = 0;
    for (int t = 0; t < n; t += 256) {
        tile[threadIdx.x] = body[t + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 256; ++j) {
            const float4 other = tile[j];
            const float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
            const float strength = other.w * inverse * inverse * inverse;
            ax += dx * strength;
            ay += dy * strength;
            az += dz * strength;
        }
        __syncthreads();
    }
    force[i] = make_float4(ax, ay, az, 0);
}

extern "C" __global__ void hash32(const unsigned* __restrict__ in, unsigned* __restrict__ out, int rounds) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = in[i];
    for (int r = 0; r < rounds; ++r) {
        x ^= x >> 16;
        x *= 0x85ebca6bu;
        x ^= x >> 13;
        x *= 0xc2b2ae35u;
        x ^= x >> 16;
        x += r;
    }
    out[i] = x;
}

// Seven points of a cube of n^3 values.
extern "C" __global__ void stencil7(const float* __restrict__ in, float* __restrict__ out, int n) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const long long plane = (long long)n * n;
    if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
    for (int z = 1; z < n - 1; ++z) {
        const long long i = z * plane + (long long)y * n + x;
        out[i] = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - plane] + in[i + plane]);
    }
}

// One step of the heat equation on n^2 values.
extern "C" __global__ void heat5(const double* __restrict__ in, double* __restrict__ out, int n) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
    const long long i = (long long)y * n + x;
    out[i] = in[i] + 0.2 * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] - 4 * in[i]);
}

// ---- fit: what the memory levels, the tensor cores and the clock cost ----

extern "C" __global__ void copy16(const uint4* __restrict__ in, uint4* __restrict__ out, long long n) {
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) out[i] = in[i];
}

__device__ __forceinline__ void mix_in(uint4& sum, const uint4 v) {
    sum.x ^= v.x;
    sum.y ^= v.y;
    sum.z ^= v.z;
    sum.w ^= v.w;
}

extern "C" __global__ void read16(const uint4* __restrict__ in, uint4* __restrict__ out, long long n) {
    const long long stride = (long long)gridDim.x * blockDim.x;
    uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll 4
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) mix_in(sum, in[i]);
    out[blockIdx.x * (long long)blockDim.x + threadIdx.x] = sum;
}

__device__ __forceinline__ uint4 load_l2(const uint4* p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

__device__ __forceinline__ uint4 load_l1(const uint4* p) {
    uint4 v;
    asm volatile("ld.global.ca.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

// All threads together read the n values in every pass, past L1.
extern "C" __global__ void read_l2(const uint4* __restrict__ in, uint4* __restrict__ out, int n, int passes) {
    uint4 sum = make_uint4(0, 0, 0, 0);
    const int threads = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;
    for (int p = 0; p < passes; ++p)
#pragma unroll 8
        for (int i = me; i < n; i += threads) mix_in(sum, load_l2(in + i));
    out[me] = sum;
}

// Every block reads its own n values, which fit L1.
extern "C" __global__ void read_l1(const uint4* __restrict__ in, uint4* __restrict__ out, int n, int passes) {
    uint4 sum = make_uint4(0, 0, 0, 0);
    const uint4* mine = in + (long long)blockIdx.x * n;
    for (int p = 0; p < passes; ++p)
#pragma unroll 8
        for (int i = threadIdx.x; i < n; i += blockDim.x) mix_in(sum, load_l1(mine + i));
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void read_shared(const uint4* __restrict__ in, uint4* __restrict__ out, int n, int passes) {
    __shared__ uint4 held[2048];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) held[i] = in[(long long)blockIdx.x * n + i];
    __syncthreads();
    uint4 sum = make_uint4(0, 0, 0, 0);
    for (int p = 0; p < passes; ++p) {
#pragma unroll 8
        for (int i = threadIdx.x; i < 2048; i += blockDim.x) mix_in(sum, held[i]);
        asm volatile("" ::: "memory");
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__device__ __forceinline__ unsigned load_word_l2(const unsigned* p) {
    unsigned v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

__device__ __forceinline__ unsigned load_word_l1(const unsigned* p) {
    unsigned v;
    asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

// As read_l2, but 4 bytes of each line of the n values: a warp asks L2 for 32 sectors of as many lines.
extern "C" __global__ void read_sectors(const unsigned* __restrict__ in, unsigned* __restrict__ out, int n, int passes) {
    unsigned sum = 0;
    const int threads = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;
    for (int p = 0; p < passes; ++p)
#pragma unroll 2
        for (int i = me; i < n / 8; i += threads) sum ^= load_word_l2(in + 32 * i);
    out[me] = sum;
}

// As read_l1, but each thread has lines of its own: a warp finds 4 bytes in each of 32 lines of L1.
extern "C" __global__ void read_lines(const unsigned* __restrict__ in, unsigned* __restrict__ out, int n, int passes) {
    unsigned sum = 0;
    const unsigned* mine = in + (long long)blockIdx.x * n * 4;
    for (int p = 0; p < passes; ++p)
        for (int i = threadIdx.x; i < n / 8; i += blockDim.x)
#pragma unroll 8
            for (int word = 0; word < 32; ++word) sum ^= load_word_l1(mine + 32 * i + word);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Every thread walks lines of its own: a warp touches 32 lines at once, 4 bytes of each.
extern "C" __global__ void read_strided(const unsigned* __restrict__ in, unsigned* __restrict__ out, int lines) {
    const long long me = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    const unsigned* mine = in + me * lines * 32;
    unsigned sum = 0;
#pragma unroll 8
    for (int i = 0; i < lines * 32; ++i) sum ^= mine[i];
    out[me] = sum;
}

// 16 bytes from anywhere in n (a power of two) values, again and again.
extern "C" __global__ void read_random(const uint4* __restrict__ in, uint4* __restrict__ out, unsigned n, int reads) {
    const unsigned me = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned at = me * 2654435761u;
    uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll 4
    for (int r = 0; r < reads; ++r) {
        at = at * 1664525u + 1013904223u;
        mix_in(sum, in[(at ^ (at >> 15)) & (n - 1)]);
    }
    out[me] = sum;
}

// As read_random, but 4 bytes from anywhere in n (a power of two) words.
extern "C" __global__ void read_random4(const unsigned* __restrict__ in, unsigned* __restrict__ out, unsigned n, int reads) {
    const unsigned me = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned at = me * 2654435761u, sum = 0;
#pragma unroll 4
    for (int r = 0; r < reads; ++r) {
        at = at * 1664525u + 1013904223u;
        sum ^= in[(at ^ (at >> 15)) & (n - 1)];
    }
    out[me] = sum;
}

// Integer work on data: what a generator of random numbers does.
extern "C" __global__ void xorshift(const unsigned* __restrict__ in, unsigned* __restrict__ out, int rounds) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = in[i], sum = 0;
    for (int r = 0; r < rounds; ++r) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        sum += x;
    }
    out[i] = sum;
}

// A stream with some arithmetic on each value: between a copy and a kernel that never waits.
template <int FMAS>
__device__ __forceinline__ void mixed(const float4* in, float4* out, long long n) {
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) {
        float4 v = in[i];
        const float4 k = v;
#pragma unroll
        for (int f = 0; f < FMAS; ++f) {
            v.x = fmaf(v.x, -0.9f, k.y);
            v.y = fmaf(v.y, -0.9f, k.z);
            v.z = fmaf(v.z, -0.9f, k.w);
            v.w = fmaf(v.w, -0.9f, k.x);
        }
        out[i] = v;
    }
}
extern "C" __global__ void mixed8(const float4* in, float4* out, long long n) { mixed<8>(in, out, n); }
extern "C" __global__ void mixed32(const float4* in, float4* out, long long n) { mixed<32>(in, out, n); }
extern "C" __global__ void mixed128(const float4* in, float4* out, long long n) { mixed<128>(in, out, n); }

// Four chains of tensor-core products on registers; `in` holds 24 words a thread.
#define MMA_LOOP(NAME, INSTRUCTION)                                                                              \
    extern "C" __global__ void NAME(const unsigned* __restrict__ in, float* __restrict__ out, int rounds) {      \
        const int me = blockIdx.x * blockDim.x + threadIdx.x;                                                    \
        unsigned a[4][4], b[4][2];                                                                               \
        float c[4][4];                                                                                           \
        for (int i = 0; i < 4; ++i) {                                                                            \
            for (int j = 0; j < 4; ++j) a[i][j] = in[me * 24 + i * 6 + j], c[i][j] = 0;                          \
            for (int j = 0; j < 2; ++j) b[i][j] = in[me * 24 + i * 6 + 4 + j];                                   \
        }                                                                                                        \
        for (int r = 0; r < rounds; ++r)                                                                         \
            _Pragma("unroll") for (int i = 0; i < 4; ++i) asm volatile(                                          \
                INSTRUCTION " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                             \
                : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])                                     \
                : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[i][0]), "r"(b[i][1]));           \
        for (int i = 0; i < 4; ++i)                                                                              \
            for (int j = 0; j < 4; ++j) out[me * 16 + i * 4 + j] = c[i][j];                                      \
    }
MMA_LOOP(mma_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MMA_LOOP(mma_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")

extern "C" __global__ void mma_f64(const double* __restrict__ in, double* __restrict__ out, int rounds) {
    const int me = blockIdx.x * blockDim.x + threadIdx.x;
    double a[4], b[4], c[4][2];
    for (int i = 0; i < 4; ++i) a[i] = in[me * 8 + i], b[i] = in[me * 8 + 4 + i], c[i][0] = c[i][1] = 0;
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                         : "+d"(c[i][0]), "+d"(c[i][1])
                         : "d"(a[i]), "d"(b[i]));
    for (int i = 0; i < 4; ++i) out[me * 8 + 2 * i] = c[i][0], out[me * 8 + 2 * i + 1] = c[i][1];
}

// ---- static power: every SM filled, nothing done ----

extern "C" __global__ void sleeping(int rounds) {
    for (int r = 0; r < rounds; ++r) asm volatile("nanosleep.u32 1000000;");
}

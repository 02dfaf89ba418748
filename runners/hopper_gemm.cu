// C = A B of f16 or bf16 (TYPE), sums in f32: all row-major, C as A. For sm_90a; hopper_gemm.py launches it.
// A block has a warpgroup that brings stripes of K of k to shared memory by bulk copies (TMA), and two that
// multiply, each 64 rows and all N columns of a tile. A block stays and takes one tile after the other, so
// that the next stripes are fetched while results are written. CLUSTER blocks take tiles below each other:
// each fetches its part of B for all of them.

#ifndef TYPE
#define TYPE f16
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#ifndef CLUSTER
#define CLUSTER 2  // blocks that share B: 1 or 2
#endif
#ifndef STAGES
#define STAGES 4  // stripes in shared memory
#endif
#ifndef GROUP
#define GROUP 8  // rows of tiles that are taken together, so that L2 holds their stripes
#endif

constexpr unsigned M = 128, N = 256, K = 64, ROW_BYTES = 128;
constexpr unsigned CHUNK_BYTES = K * ROW_BYTES;  // 64 columns of B
constexpr unsigned A_BYTES = M * ROW_BYTES, B_BYTES = N / 64 * CHUNK_BYTES;
constexpr unsigned STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SUMS = N / 2;

using Barrier = unsigned;  // its address in shared memory
using Half = unsigned short;
using Matrix = unsigned long long;  // how wgmma finds it in shared memory

// How a bulk copy finds boxes of an array; given by value, since one in global memory needs a fence.
struct alignas(64) Map {
  unsigned long long words[16];
};

__device__ __forceinline__ void init(Barrier barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void wait(Barrier barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "AGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra AGAIN;\n"
      "}\n" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ void expect(Barrier barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Arrive at a barrier of a block of the cluster. (`.release.cluster` would wait for all writes to memory.)
__device__ __forceinline__ void arrive(Barrier barrier, unsigned block) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(barrier), "r"(block) : "memory");
}

__device__ __forceinline__ void fetch_a(unsigned to, const Map& map, Barrier full, int k, int m) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(&map), "r"(full), "r"(k), "r"(m) : "memory");
}

// B as chunks of 64 columns: column in a chunk, k, chunk.
__device__ __forceinline__ void fetch_b(unsigned to, const Map& map, Barrier full, int k, int chunk) {
#if CLUSTER > 1
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(&map), "r"(full), "r"(0), "r"(k), "r"(chunk), "h"((short)((1 << CLUSTER) - 1)) : "memory");
#else
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to), "l"(&map), "r"(full), "r"(0), "r"(k), "r"(chunk)
      : "memory");
#endif
}

__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n" ::: "memory");
}

// Rows of 128 bytes, swizzled; eight rows are 1024 bytes. `leading` is from one chunk of columns to the next.
__device__ __forceinline__ Matrix matrix(unsigned at, unsigned leading) {
  unsigned low = (at & 0x3ffff) >> 4 | leading << 16, high = 1024 >> 4 | 1u << 30;
  return (Matrix)high << 32 | low;
}

#define TWO(i) "+f"(c[i]), "+f"(c[i + 1])
#define EIGHT(i) TWO(i), TWO(i + 2), TWO(i + 4), TWO(i + 6)
#define MANY(i) EIGHT(i), EIGHT(i + 8), EIGHT(i + 16), EIGHT(i + 24)

// c = a b, and + c if `add`: 64 x 256 x 16.
__device__ __forceinline__ void multiply(float (&c)[SUMS], Matrix a, Matrix b, int add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." TEXT(TYPE) "." TEXT(TYPE) " {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, add, 1, 1, 0, 1;\n"
      "}\n"
      : MANY(0), MANY(32), MANY(64), MANY(96)
      : "l"(a), "l"(b), "r"(add));
}

// Rows and columns of the tile that a cluster takes as its `number`th: (row of clusters, column).
__device__ __forceinline__ int2 tile_of(int number, int rows, int columns) {
  int group = number / (GROUP * columns), first = group * GROUP;
  int size = min(GROUP, rows - first), rest = number - group * GROUP * columns;
  return make_int2(first + rest % size, rest / size);
}

// Give a lane the four pairs of neighbouring columns that its three neighbours and itself have of it.
__device__ __forceinline__ uint4 transposed(unsigned v0, unsigned v1, unsigned v2, unsigned v3, int lane) {
  bool odd = lane & 1, upper = lane & 2;
  unsigned x = __shfl_xor_sync(~0u, odd ? v0 : v1, 1), y = __shfl_xor_sync(~0u, odd ? v2 : v3, 1);
  (odd ? v0 : v1) = x;
  (odd ? v2 : v3) = y;
  x = __shfl_xor_sync(~0u, upper ? v0 : v2, 2), y = __shfl_xor_sync(~0u, upper ? v1 : v3, 2);
  (upper ? v0 : v2) = x;
  (upper ? v1 : v3) = y;
  return make_uint4(v0, v1, v2, v3);
}

__device__ __forceinline__ void write(Half* c, const float (&sums)[SUMS], int n, int lane) {
#pragma unroll
  for (int below = 0; below < 2; ++below) {
#pragma unroll
    for (int i = 0; i < N / 32; ++i) {
      unsigned v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        int at = 4 * (4 * i + j) + 2 * below;
        asm("cvt.rn." TEXT(TYPE) "x2.f32 %0, %1, %2;" : "=r"(v[j]) : "f"(sums[at + 1]), "f"(sums[at]));
      }
      uint4 eight = transposed(v[0], v[1], v[2], v[3], lane);
      *reinterpret_cast<uint4*>(c + (size_t)8 * below * n + 8 * (4 * i + (lane & 3))) = eight;
    }
  }
}

extern "C" __global__ void __launch_bounds__(384, 1)
#if CLUSTER > 1
    __cluster_dims__(CLUSTER, 1, 1)
#endif
        gemm(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, Half* c, int m, int n,
             int k) {
  extern __shared__ __align__(1024) unsigned char stripes_and_barriers[];
  unsigned base = (unsigned)__cvta_generic_to_shared(stripes_and_barriers);
  Barrier full = base + STAGES * STAGE_BYTES, empty = full + 8 * STAGES;
  int group = threadIdx.x / 128, in_group = threadIdx.x % 128;
  unsigned rank = 0;
#if CLUSTER > 1
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      init(full + 8 * stage, 1);
      init(empty + 8 * stage, 2 * CLUSTER);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (CLUSTER > 1) meet_cluster();

  int rows = m / (M * CLUSTER), columns = n / N, stripes = k / K;
  int first = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
  unsigned stage = 0, parity = 0;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (in_group == 0) {
      for (int number = first; number < rows * columns; number += clusters) {
        int2 tile = tile_of(number, rows, columns);
        int row = (tile.x * CLUSTER + rank) * M, chunk = tile.y * (N / 64) + rank * (N / 64 / CLUSTER);
        for (int stripe = 0; stripe < stripes; ++stripe) {
          wait(empty + 8 * stage, parity ^ 1);
          expect(full + 8 * stage, STAGE_BYTES);
          unsigned to = base + stage * STAGE_BYTES;
          fetch_a(to, map_a, full + 8 * stage, stripe * K, row);
          fetch_b(to + A_BYTES + rank * (B_BYTES / CLUSTER), map_b, full + 8 * stage, stripe * K, chunk);
          if (++stage == STAGES) stage = 0, parity ^= 1;
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    int own = group - 1, lane = threadIdx.x % 32, warp = in_group / 32;
    float sums[SUMS];
    for (int number = first; number < rows * columns; number += clusters) {
      unsigned before = STAGES;
      for (int stripe = 0; stripe < stripes; ++stripe) {
        wait(full + 8 * stage, parity);
        unsigned from = base + stage * STAGE_BYTES;
        Matrix a = matrix(from + own * 64 * ROW_BYTES, 1);
        Matrix b = matrix(from + A_BYTES, CHUNK_BYTES >> 4);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < K / 16; ++step)
          multiply(sums, a + step * 32 / 16, b + step * 16 * ROW_BYTES / 16, stripe > 0 || step > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        // The products of the stripe before are done.
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (before < STAGES && in_group < CLUSTER) arrive(empty + 8 * before, in_group);
        before = stage;
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
      for (int i = 0; i < SUMS; ++i) asm volatile("" : "+f"(sums[i])::"memory");
      if (in_group < CLUSTER) arrive(empty + 8 * before, in_group);
      int2 tile = tile_of(number, rows, columns);
      size_t row = (tile.x * CLUSTER + rank) * M + own * 64 + warp * 16 + lane / 4;
      write(c + row * n + tile.y * N, sums, n, lane);
    }
  }
  // No block of a cluster ends while another arrives at its barriers.
  if (CLUSTER > 1) meet_cluster();
}

// Step 5: Hopper's own ways. The copy engine (TMA) brings whole tiles into a ring of four stages,
// in the order that wgmma reads them in; one thread asks for them, and two groups of four warps
// multiply 64 × 256 by 16 in one instruction each. Barriers in shared memory say when a stage is
// full and when it is empty again. A block takes tile after tile, so that the copies for the next
// one go on while results are written.
#include <cuda_bf16.h>

constexpr int kTileM = 128, kTileN = 256, kDepth = 64, kStages = 4;
constexpr int kBytesA = kTileM * kDepth * 2, kBytes = (kTileM + kTileN) * kDepth * 2;
constexpr int kGroup = 8;  // tiles of rows that are taken before the next columns: they share L2

typedef unsigned u32;
typedef unsigned long long u64;

__device__ void wait(u32 barrier, u32 parity) {
  for (u32 done = 0; !done;)
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
}
__device__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ void bring(u32 to, const void* map, u32 barrier, int at, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(at), "r"(row)
      : "memory");
}
// Rows of 128 bytes as the copy engine puts them: eight are 1024 bytes.
__device__ u64 descriptor(u32 at) {
  return u64((at & 0x3ffff) >> 4) | u64(1) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}

#define EIGHT(i)                                                                              \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define SIXTY_FOUR(i)                                                                 \
  EIGHT(i), EIGHT(i + 8), EIGHT(i + 16), EIGHT(i + 24), EIGHT(i + 32), EIGHT(i + 40), \
      EIGHT(i + 48), EIGHT(i + 56)
// d (64, 256) of a warp group += a (64, 16) b (256, 16)ᵀ.
__device__ void multiply(float (&d)[128], u64 a, u64 b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "
      "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
      "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
      "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
      "%123, %124, %125, %126, %127}, %128, %129, p, 1, 1, 0, 0;\n}"
      : SIXTY_FOUR(0), SIXTY_FOUR(64)
      : "l"(a), "l"(b), "r"(add));
}

struct Place {
  int row, col;
  __device__ Place(int tile, int m, int n) {
    const int tiles_m = m / kTileM, tiles_n = n / kTileN, group = tile / (kGroup * tiles_n);
    const int tall = min(tiles_m - group * kGroup, kGroup), rest = tile % (kGroup * tiles_n);
    row = (group * kGroup + rest % tall) * kTileM;
    col = rest / tall * kTileN;
  }
};

extern "C" __global__ void __launch_bounds__(384, 1)
    product(const void* a_map, const void* b_map, __nv_bfloat16* c, int m, int n, int k) {
  extern __shared__ unsigned char dynamic[];
  __shared__ u64 barriers[2 * kStages];
  const u32 stages = ((u32)__cvta_generic_to_shared(dynamic) + 1023) & ~1023u;
  const u32 full = (u32)__cvta_generic_to_shared(barriers), empty = full + 8 * kStages;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * s));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" ::"r"(empty + 8 * s));  // warps
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int tiles = (m / kTileM) * (n / kTileN), group = threadIdx.x / 128;
  int stage = 0;
  u32 parity = 0;
  const auto next = [&] {
    if (++stage == kStages) stage = 0, parity ^= 1;
  };
  if (group == 0) {  // brings
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0)
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Place place(tile, m, n);
        for (int at = 0; at < k; at += kDepth, next()) {
          wait(empty + 8 * stage, parity ^ 1);
          const u32 barrier = full + 8 * stage, to = stages + stage * kBytes;
          asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                       "r"(kBytes)
                       : "memory");
          bring(to, a_map, barrier, at, place.row);
          bring(to + kBytesA, b_map, barrier, at, place.col);
        }
      }
  } else {  // multiplies
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float sums[128];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      u32 before = 0;
      for (int at = 0; at < k; at += kDepth, next()) {
        wait(full + 8 * stage, parity);
        const u32 from = stages + stage * kBytes, own = from + (group - 1) * (kBytesA / 2);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i)
          multiply(sums, descriptor(own + i * 32), descriptor(from + kBytesA + i * 32), at + i > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        // The products before these have ended, and their stage may be filled again.
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (at > 0 && lane == 0) arrive(before);
        before = empty + 8 * stage;
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (lane == 0) arrive(before);
      const Place place(tile, m, n);
      const int row = place.row + (group - 1) * 64 + warp * 16 + lane / 4;
#pragma unroll
      for (int i = 0; i < 128; i += 2) {
        const int to_row = row + i / 2 % 2 * 8, to_col = place.col + i / 4 * 8 + lane % 4 * 2;
        *(__nv_bfloat162*)&c[(long long)to_row * n + to_col] =
            __floats2bfloat162_rn(sums[i], sums[i + 1]);
      }
    }
  }
}

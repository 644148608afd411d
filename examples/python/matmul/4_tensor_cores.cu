// Step 4: tensor cores. A warp multiplies 16 × 16 by 16 × 8 in one instruction (mma); its operands
// come from shared memory by ldmatrix, which hands each thread the elements that mma wants of it.
// While a block of 8 warps computes with one pair of tiles, the next is on its way (cp.async).
#include <cuda_bf16.h>

constexpr int kTile = 128, kDepth = 32;
constexpr int kPitch = kDepth + 8;  // of rows of 80 bytes no 8 begin in one bank

__device__ void copy_async(void* to, const void* from) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
      "l"(from));
}

__device__ void load_matrices(unsigned (&r)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((unsigned)__cvta_generic_to_shared(from)));
}

__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(256)
    product(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
  __shared__ __align__(16) __nv_bfloat16 a_tile[2][kTile][kPitch], b_tile[2][kTile][kPitch];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int row = blockIdx.y * kTile, col = blockIdx.x * kTile;
  const int warp_row = warp / 4 * 64, warp_col = warp % 4 * 32;  // its 64 × 32 results
  const auto bring = [&](int stage, int first) {
    for (int piece = t; piece < kTile * kDepth / 8; piece += 256) {
      const int r = piece / 4, at = piece % 4 * 8;
      copy_async(&a_tile[stage][r][at], &a[(row + r) * k + first + at]);
      copy_async(&b_tile[stage][r][at], &b[(col + r) * k + first + at]);
    }
    asm volatile("cp.async.commit_group;");
  };
  float sums[4][4][4] = {};
  bring(0, 0);
  for (int first = 0, stage = 0; first < k; first += kDepth, stage ^= 1) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if (first + kDepth < k) bring(stage ^ 1, first + kDepth);
#pragma unroll
    for (int i = 0; i < kDepth; i += 16) {
      unsigned x[4][4], y[2][4];
#pragma unroll
      for (int r = 0; r < 4; ++r)
        load_matrices(x[r], &a_tile[stage][warp_row + r * 16 + lane % 16][i + lane / 16 * 8]);
#pragma unroll
      for (int s = 0; s < 2; ++s)
        load_matrices(
            y[s],
            &b_tile[stage][warp_col + s * 16 + lane / 16 * 8 + lane % 8][i + lane / 8 % 2 * 8]);
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int s = 0; s < 4; ++s)
          multiply(sums[r][s], x[r], y[s / 2][s % 2 * 2], y[s / 2][s % 2 * 2 + 1]);
    }
  }
  for (int r = 0; r < 4; ++r)
    for (int s = 0; s < 4; ++s)
      for (int half = 0; half < 2; ++half) {
        const int to_row = row + warp_row + r * 16 + half * 8 + lane / 4;
        const int to_col = col + warp_col + s * 8 + lane % 4 * 2;
        *(__nv_bfloat162*)&c[to_row * n + to_col] =
            __floats2bfloat162_rn(sums[r][s][half * 2], sums[r][s][half * 2 + 1]);
      }
}

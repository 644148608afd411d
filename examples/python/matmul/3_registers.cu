// Step 3: a thread has 8 × 8 results in registers, so that 16 values read from shared memory are 64
// products. A block of 256 threads has a tile of 128 × 128; memory is read 16 bytes at a time.
#include <cuda_bf16.h>

constexpr int kTile = 128, kDepth = 16, kOwn = 8;

extern "C" __global__ void __launch_bounds__(256)
    product(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
  __shared__ float a_tile[kDepth][kTile], b_tile[kDepth][kTile];  // turned: rows beside each other
  const int t = threadIdx.x;
  const int row = blockIdx.y * kTile, col = blockIdx.x * kTile;
  const int load_row = t / 2, load_at = t % 2 * 8;
  const int own_row = t / 16 * kOwn, own_col = t % 16 * kOwn;
  float sums[kOwn][kOwn] = {};
  for (int first = 0; first < k; first += kDepth) {
    __nv_bfloat16 from_a[8], from_b[8];
    *(uint4*)from_a = *(const uint4*)&a[(row + load_row) * k + first + load_at];
    *(uint4*)from_b = *(const uint4*)&b[(col + load_row) * k + first + load_at];
    for (int i = 0; i < 8; ++i) {
      a_tile[load_at + i][load_row] = __bfloat162float(from_a[i]);
      b_tile[load_at + i][load_row] = __bfloat162float(from_b[i]);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      float x[kOwn], y[kOwn];
#pragma unroll
      for (int j = 0; j < kOwn; j += 4) {
        *(float4*)&x[j] = *(const float4*)&a_tile[i][own_row + j];
        *(float4*)&y[j] = *(const float4*)&b_tile[i][own_col + j];
      }
#pragma unroll
      for (int r = 0; r < kOwn; ++r)
#pragma unroll
        for (int s = 0; s < kOwn; ++s) sums[r][s] += x[r] * y[s];
    }
    __syncthreads();
  }
  for (int r = 0; r < kOwn; ++r) {
    __nv_bfloat16 result[kOwn];
    for (int s = 0; s < kOwn; ++s) result[s] = __float2bfloat16(sums[r][s]);
    *(uint4*)&c[(row + own_row + r) * n + col + own_col] = *(const uint4*)result;
  }
}

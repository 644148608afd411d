// Step 2: a block of 32 × 32 threads brings tiles of both operands into shared memory, where each
// element is read 32 times. A column of padding keeps the threads of a warp in different banks.
#include <cuda_bf16.h>

constexpr int kTile = 32;

extern "C" __global__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c,
                                   int m, int n, int k) {
  __shared__ float a_tile[kTile][kTile + 1], b_tile[kTile][kTile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile, col = blockIdx.x * kTile;
  float sum = 0;
  for (int first = 0; first < k; first += kTile) {
    a_tile[y][x] = __bfloat162float(a[(row + y) * k + first + x]);
    b_tile[y][x] = __bfloat162float(b[(col + y) * k + first + x]);
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += a_tile[y][i] * b_tile[x][i];
    __syncthreads();
  }
  c[(row + y) * n + col + x] = __float2bfloat16(sum);
}

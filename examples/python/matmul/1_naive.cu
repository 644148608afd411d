// Step 1: a thread for each element of c (m, n) = a (m, k) b (n, k)ᵀ. Every operand comes from
// memory for every product.
#include <cuda_bf16.h>

extern "C" __global__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c,
                                   int m, int n, int k) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < k; ++i)
    sum += __bfloat162float(a[row * k + i]) * __bfloat162float(b[col * k + i]);
  c[row * n + col] = __float2bfloat16(sum);
}

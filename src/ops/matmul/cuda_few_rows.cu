// Products with few rows that store what they compute.
#include "mica/ops/matmul/cuda_few_rows.cuh"

namespace mica::few_rows {
namespace {

template <Kind kind, class T, int most>
__global__ void __launch_bounds__(kWarps * 32) store_product(Problem p, void* out) {
  product<kind, most>(p,
                      [&](int64_t at, float x) { static_cast<T*>(out)[at] = cuda::convert<T>(x); });
}

template <Kind kind, class T>
Known for_rows(int m) {
  if (most_of(m) == 1) return store_product<kind, T, 1>;
  return most_of(m) == 4 ? store_product<kind, T, 4> : store_product<kind, T, kMostRows>;
}

}  // namespace

Known known_kernel(Kind kind, int m) {
  if (kind == Kind::f32) return for_rows<Kind::f32, float>(m);
  return kind == Kind::f16 ? for_rows<Kind::f16, __half>(m)
                           : for_rows<Kind::bf16, __nv_bfloat16>(m);
}

}  // namespace mica::few_rows

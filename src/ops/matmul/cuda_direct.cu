// Launches of split_k_mma's products in tiles of 16 × 16.
#include "mica/ops/matmul/cuda_direct.cuh"

#include <algorithm>

#include "mica/ops/matmul/cuda_small_end.cuh"

namespace mica {
namespace {

using namespace small_product;

constexpr int kMostPitch = 1 << 20;

template <bool b_along_k>
__global__ void __launch_bounds__(kBoundThreads) direct_known(SmallProduct p, SmallEnd end) {
  direct_product<b_along_k>(p, end);
}

}  // namespace

bool direct_takes(const SmallProduct& p, bool a_along_k, bool b_along_k) {
  return a_along_k && p.a_vectors && p.b_vectors && p.k % 4 == 0 && p.b_pitch <= kMostPitch &&
         (b_along_k || p.n % 2 == 0);
}

SmallLaunch direct_launch(const SmallProduct& p, bool b_along_k) {
  const int warps =
      std::clamp(cuda::ceil_div(p.k, kTogether * kDirectStep), kElements / 32, kDirectWarps);
  SmallLaunch l;
  l.kernel = b_along_k ? direct_known<true> : direct_known<false>;
  l.header = "mica/ops/matmul/cuda_direct.cuh";
  l.call = (TemplateCall("direct_product") << b_along_k).text();
  l.bound = kBoundThreads;
  l.grid = dim3(static_cast<unsigned>(cuda::ceil_div(p.n, kTile)),
                static_cast<unsigned>(cuda::ceil_div(p.m, kTile)));
  l.threads = static_cast<unsigned>(warps * 32);
  return l;
}

}  // namespace mica

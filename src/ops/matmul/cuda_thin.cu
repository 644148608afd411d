// Launches of products with one thin size.
#include "mica/ops/matmul/cuda_thin.cuh"

#include <algorithm>

#include "mica/ops/matmul/cuda_small_end.cuh"

namespace mica {
namespace {

using namespace small_product;

template <int R, int most, int V>
__global__ void __launch_bounds__(kDotThreads) dots_known(SmallProduct p, SmallEnd end) {
  dots<R, most, V>(p, end);
}
template <int R, int most, int V>
__global__ void __launch_bounds__(kSpreadThreads) spread_known(SmallProduct p, SmallEnd end) {
  spread<R, most, V>(p, end);
}
template <int most>
__global__ void __launch_bounds__(kColumnWarps * 32) columns_known(SmallProduct p, SmallEnd end) {
  columns<most>(p, end);
}

/// Calls f.operator()<most>() with a number that is at least `size`.
template <class F>
void switch_thin(int size, F&& f) {
  if (size <= 4) return f.template operator()<4>();
  if (size <= 10) return f.template operator()<10>();
  f.template operator()<kThin>();
}

unsigned blocks(int n, int per_block) {
  return static_cast<unsigned>(cuda::ceil_div(n, per_block));
}

SmallLaunch thin(int bound) {
  SmallLaunch l;
  l.header = "mica/ops/matmul/cuda_thin.cuh";
  l.bound = bound;
  return l;
}

}  // namespace

SmallLaunch thin_n_launch(const SmallProduct& p, int splits) {
  const bool vectors = p.a_vectors && p.b_vectors && p.k % 4 == 0;
  const int warps = cuda::ceil_div(p.slice, vectors ? 128 : 32);
  SmallLaunch l = thin(kDotThreads);
  l.grid = dim3(static_cast<unsigned>(splits), blocks(p.m, kDotRows));
  l.threads = static_cast<unsigned>(std::min(warps * 32, kDotThreads));
  l.cluster = static_cast<unsigned>(splits);
  switch_thin(p.n, [&]<int most>() {
    l.kernel = vectors ? dots_known<kDotRows, most, 4> : dots_known<kDotRows, most, 1>;
    l.call = (TemplateCall("dots") << kDotRows << most << (vectors ? 4 : 1)).text();
  });
  return l;
}

SmallLaunch thin_k_launch(const SmallProduct& p) {
  const bool vectors = p.b_vectors && p.out_vectors && p.n % 4 == 0;
  SmallLaunch l = thin(kSpreadThreads);
  l.grid = dim3(blocks(p.n, kSpreadThreads * (vectors ? 4 : 1)), blocks(p.m, kSpreadRows));
  l.threads = kSpreadThreads;
  switch_thin(p.k, [&]<int most>() {
    l.kernel = vectors ? spread_known<kSpreadRows, most, 4> : spread_known<kSpreadRows, most, 1>;
    l.call = (TemplateCall("spread") << kSpreadRows << most << (vectors ? 4 : 1)).text();
  });
  return l;
}

SmallLaunch thin_m_launch(const SmallProduct& p, bool row_sums) {
  SmallLaunch l = thin(kColumnWarps * 32);
  l.grid = dim3(blocks(p.n + (row_sums ? 1 : 0), kColumnLanes));
  l.threads =
      static_cast<unsigned>(std::min(cuda::ceil_div(p.k, kRowLanes * kDepth), kColumnWarps) * 32);
  switch_thin(p.m, [&]<int most>() {
    l.kernel = columns_known<most>;
    l.call = (TemplateCall("columns") << most).text();
  });
  return l;
}

}  // namespace mica

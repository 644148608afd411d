// Launches of split_k_mma.
#include "mica/ops/matmul/cuda_split_k.cuh"

#include "mica/ops/matmul/cuda_small_end.cuh"

namespace mica {
namespace {

using namespace small_product;

template <class S, bool a_along_k, bool b_along_k>
__global__ void __launch_bounds__(S::kThreads) product_known(SmallProduct p, SmallEnd end) {
  product<S, a_along_k, b_along_k>(p, end);
}

template <class S>
SmallLaunch launch(const SmallProduct& p, bool a_along_k, bool b_along_k, int splits,
                   bool row_sums) {
  SmallLaunch l;
  l.kernel = !a_along_k  ? product_known<S, false, false>
             : b_along_k ? product_known<S, true, true>
                         : product_known<S, true, false>;
  l.header = "mica/ops/matmul/cuda_split_k.cuh";
  const std::string blocks = (TemplateCall("mica::small_product::Blocks")
                              << S::kM << S::kN << S::kGroups << S::kChunk << S::kStages)
                                 .text();
  l.call = (TemplateCall("product") << blocks << a_along_k << b_along_k).text();
  l.bound = S::kThreads;
  l.grid = dim3(static_cast<unsigned>(splits), static_cast<unsigned>(cuda::ceil_div(p.n, S::kN)),
                static_cast<unsigned>(cuda::ceil_div(p.m, S::kM)));
  l.threads = S::kThreads;
  l.shared_bytes = static_cast<size_t>(S::shared_bytes(splits, row_sums));
  l.cluster = static_cast<unsigned>(splits);
  return l;
}

}  // namespace

SmallLaunch split_k_launch(const SmallProduct& p, bool a_along_k, bool b_along_k,
                           const SplitKPlan& plan, bool row_sums) {
  switch (plan.tile) {
    case SplitKTile::large:
      return launch<Blocks<64, 64, 4, 16, 3>>(p, a_along_k, b_along_k, plan.splits, row_sums);
    case SplitKTile::middle:
      return launch<Blocks<64, 32, 4, 16, 4>>(p, a_along_k, b_along_k, plan.splits, row_sums);
    case SplitKTile::small:
      return launch<Blocks<32, 32, 8, 16, 3>>(p, a_along_k, b_along_k, plan.splits, row_sums);
    case SplitKTile::direct:
      break;
  }
  return direct_launch(p, b_along_k);
}

}  // namespace mica

// The gradient of attention by tiles: f32.
#include "mica/ops/attention/cuda_tiles.cuh"

namespace mica::attention {

void differentiate_float(const AttentionGradProblem& g, Products products, const QueryTerms* rows,
                         const Call& call) {
  switch_width(g.problem, [&]<int D>() {
    if (products == Products::tf32)
      differentiate<FloatProduct<false>, D>(g, rows, call);
    else
      differentiate<FloatProduct<true>, D>(g, rows, call);
  });
}

}  // namespace mica::attention

// The gradient of attention by tiles: f16 and bf16.
#include "mica/ops/attention/cuda_tiles.cuh"

namespace mica::attention {

void differentiate_half(const AttentionGradProblem& g, Products products, const QueryTerms* rows,
                        const Call& call) {
  switch_width(g.problem, [&]<int D>() {
    if (products == Products::half)
      differentiate<HalfProduct<__half>, D>(g, rows, call);
    else
      differentiate<HalfProduct<__nv_bfloat16>, D>(g, rows, call);
  });
}

}  // namespace mica::attention

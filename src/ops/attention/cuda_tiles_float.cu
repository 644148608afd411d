// Attention by tiles: f32.
#include "mica/ops/attention/cuda_tiles.cuh"

namespace mica::attention {

void attend_float(const AttentionProblem& p, Products products, const Call& call) {
  switch_width(p, [&]<int D>() {
    if (products == Products::tf32)
      attend<FloatProduct<false>, D>(p, call);
    else
      attend<FloatProduct<true>, D>(p, call);
  });
}

}  // namespace mica::attention

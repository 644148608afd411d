// The gradient of attention by tiles: f32.
#include "mica/ops/attention/cuda_tiles.cuh"

namespace mica::attention {

void differentiate_float(const TileGrad& g, Products products, const float* deltas,
                         const Call& call) {
  switch_width(g.problem, [&]<int D>() {
    if (products == Products::tf32)
      differentiate<FloatProduct<false>, D>(g, deltas, call);
    else
      differentiate<FloatProduct<true>, D>(g, deltas, call);
  });
}

}  // namespace mica::attention

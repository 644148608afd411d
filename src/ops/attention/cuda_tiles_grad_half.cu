// The gradient of attention by tiles: f16 and bf16.
#include "mica/ops/attention/cuda_tiles.cuh"

namespace mica::attention {

void differentiate_half(const TileGrad& g, Products products, const float* deltas,
                        const Call& call) {
  switch_width(g.problem, [&]<int D>() {
    if (products == Products::half)
      differentiate<HalfProduct<__half>, D>(g, deltas, call);
    else
      differentiate<HalfProduct<__nv_bfloat16>, D>(g, deltas, call);
  });
}

}  // namespace mica::attention

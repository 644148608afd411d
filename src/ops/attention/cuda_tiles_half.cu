// Attention by tiles: f16 and bf16.
#include "mica/ops/attention/cuda_tiles.cuh"

namespace mica::attention {

void attend_half(const AttentionProblem& p, Products products, const Call& call) {
  switch_width(p, [&]<int D>() {
    if (products == Products::half)
      attend<HalfProduct<__half>, D>(p, call);
    else
      attend<HalfProduct<__nv_bfloat16>, D>(p, call);
  });
}

}  // namespace mica::attention

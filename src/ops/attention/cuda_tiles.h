#pragma once

#include "mica/ops/attention/problem.h"

namespace mica {
class Encoder;
}

// Attention by tiles of scores in registers. Calls are for one kind of element and one width of
// heads; the files cuda_tiles_*.cu have them compiled.
namespace mica::attention {

inline constexpr int kTileRows = 64;  ///< queries of a block, or keys

/// Which products: f16, bf16, f32 as TF32, f32 with all its digits.
enum class Products : uint8_t { half, bfloat, tf32, exact };

struct TileGrad {
  AttentionProblem problem;
  AttentionOperands out;
  AttentionRows dy;
};

void attend_half(const AttentionProblem& p, Products products, const Call& call);
void attend_float(const AttentionProblem& p, Products products, const Call& call);
/// `deltas`: of each query the sum of dy · y, less the cotangent of lse.
void differentiate_half(const TileGrad& g, Products products, const float* deltas,
                        const Call& call);
void differentiate_float(const TileGrad& g, Products products, const float* deltas,
                         const Call& call);

}  // namespace mica::attention

#pragma once

#include "mica/ops/attention/problem.h"

namespace mica {
class Encoder;
}

// Attention by tiles of scores in registers. Calls are for one kind of element and one width of
// heads; the files cuda_tiles_*.cu have them compiled.
namespace mica::attention {

struct QueryTerms;

inline constexpr int kTileRows = 64;  ///< queries of a block, or keys

/// Which products: f16, bf16, f32 as TF32, f32 with all its digits.
enum class Products : uint8_t { half, bfloat, tf32, exact };

/// Why a call is not for tiles with heads of up to `widest`; empty where it is.
std::string why_no_tiles(const AttentionProblem& p, DType dtype, int64_t widest);
/// Accepts, with copies of those operands whose rows do not lie on 16-byte boundaries.
Support support_tiles(const AttentionProblem& p, const Specs& s);
Support support_grad_tiles(const AttentionProblem& p, const Specs& s);

/// Of every query of a call of the gradient, in its workspace.
size_t query_terms_bytes(const AttentionProblem& p);
QueryTerms* describe_queries(const AttentionGradProblem& g, const Call& call);
AttentionGradProblem grad_problem_of(const AttentionParams& params, const Specs& s);

void attend_half(const AttentionProblem& p, Products products, const Call& call);
void attend_float(const AttentionProblem& p, Products products, const Call& call);
void differentiate_half(const AttentionGradProblem& g, Products products, const QueryTerms* rows,
                        const Call& call);
void differentiate_float(const AttentionGradProblem& g, Products products, const QueryTerms* rows,
                         const Call& call);

}  // namespace mica::attention

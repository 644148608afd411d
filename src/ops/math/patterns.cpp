// pow(x, 2) is a product, a hundred times as fast as a power.
#include "mica/op/pattern.h"

namespace mica {

const OpDef& square_op();

namespace {

std::optional<MatchedCall> join_square(const Match& match) {
  const MatchedCall& pow = match.calls[0];
  const TensorSpec& x = match.spec(pow.in[0]);
  const TensorSpec& result = match.spec(pow.out[0]);
  if (match.number(pow.in[1]) != 2.0 || !is_floating(x.dtype) || x.dtype != result.dtype ||
      x.shape != result.shape)
    return std::nullopt;
  return MatchedCall{&square_op(), AnyParams(ParamsRef::of(NoParams{})), {pow.in[0]}, pow.out};
}

}  // namespace

Patterns math_patterns() { return {{{{"pow", {0, Pattern::kAny}}}, join_square}}; }

}  // namespace mica

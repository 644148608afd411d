// Activations that are written as what they are made of, as models that come from elsewhere have
// them: one call can go with the convolution or the product before it.
#include <cmath>
#include <string>

#include "mica/op/pattern.h"
#include "mica/ops/activation/functors.h"
#include "mica/ops/where/functor_params.h"

namespace mica {

const OpDef& gelu_op();
const OpDef& hardswish_op();
const OpDef& silu_op();

namespace {

/// Values of a pattern, the last first; what has no name may be a number.
enum { kX, kResult, kA, kB, kC, kD };

/// Which operand of a call of two is a number everywhere, and which one; none: neither.
struct Scaled {
  int value;
  double number;
};
std::optional<Scaled> scaled(const Match& match, const MatchedCall& call) {
  for (const size_t k : {1U, 0U})
    if (const auto number = match.number(call.in[k])) return Scaled{call.in[1 - k], *number};
  return std::nullopt;
}

bool is_near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

/// Whether a call divides by `number`, or multiplies by its reciprocal; adds it, where it adds.
bool by(const Match& match, const MatchedCall& call, double number) {
  const auto s = scaled(match, call);
  return s && is_near(s->number, std::string_view(call.op->name) == "mul" ? 1 / number : number);
}

std::optional<MatchedCall> activation(const OpDef& op, const Match& match, int x) {
  const MatchedCall& last = match.calls[0];
  const TensorSpec& from = match.spec(x);
  const TensorSpec& to = match.spec(last.out[0]);
  if (!is_floating(to.dtype) || from.dtype != to.dtype || from.shape != to.shape)
    return std::nullopt;
  return MatchedCall{&op, AnyParams(ParamsRef::of(NoParams{})), {x}, {last.out[0]}};
}

/// x * sigmoid(x).
std::optional<MatchedCall> join_silu(const Match& match) {
  return activation(silu_op(), match, match.calls[1].in[0]);
}

/// x * hardsigmoid(x).
std::optional<MatchedCall> join_hardsigmoid(const Match& match) {
  return activation(hardswish_op(), match, match.calls[1].in[0]);
}

/// x * clamp(x + 3, 0, 6) / 6: the division, the product, the bounds, the sum.
std::optional<MatchedCall> join_hardswish(const Match& match) {
  const auto& bounds = match.calls[2].params.as<ClampParams>();
  const auto sum = scaled(match, match.calls[3]);
  if (bounds.low != 0 || bounds.high != 6 || !sum || !is_near(sum->number, 3) ||
      !by(match, match.calls[0], 6))
    return std::nullopt;
  return activation(hardswish_op(), match, sum->value);
}

/// x * (erf(x / √2) + 1) / 2: two products, one of them a half, the sum, erf, and what scales x.
std::optional<MatchedCall> join_gelu(const Match& match) {
  const auto root = scaled(match, match.calls[4]);
  const bool halves = by(match, match.calls[0], 2) || by(match, match.calls[1], 2);
  if (!root || !halves || !by(match, match.calls[2], 1) ||
      !by(match, match.calls[4], std::sqrt(2.0)))
    return std::nullopt;
  return activation(gelu_op(), match, root->value);
}

/// Both orders of the operands.
std::vector<std::vector<int>> orders(int a, int b) { return {{a, b}, {b, a}}; }

constexpr int kAny = Pattern::kAny;

void add_silu(Patterns& to) {
  for (const auto& in : orders(kX, kA)) {
    to.push_back({{{"mul", in, {kResult}}, {"sigmoid", {kX}, {kA}}}, join_silu});
    to.push_back({{{"mul", in, {kResult}}, {"hardsigmoid", {kX}, {kA}}}, join_hardsigmoid});
  }
}

void add_hardswish(Patterns& to) {
  for (const auto& product : orders(kX, kB))
    for (const auto& sum : orders(kX, kAny))
      for (const char* last : {"div", "mul"})
        to.push_back({{{last, {kA, kAny}, {kResult}},
                       {"mul", product, {kA}},
                       {"clamp", {kC}, {kB}},
                       {"add", sum, {kC}}},
                      join_hardswish});
}

void add_gelu(Patterns& to) {
  for (const char* root : {"div", "mul"})
    for (const auto& sum : orders(kC, kAny))
      for (const auto& product : orders(kX, kB)) {
        const Pattern::Call plus_one{"add", sum, {kB}};
        const Pattern::Call curve{"erf", {kD}, {kC}};
        const Pattern::Call from{root, {kX, kAny}, {kD}};
        // The product is halved, or x is before it.
        to.push_back(
            {{{"mul", {kA, kAny}, {kResult}}, {"mul", product, {kA}}, plus_one, curve, from},
             join_gelu});
        for (const auto& late : orders(kA, kB))
          to.push_back(
              {{{"mul", late, {kResult}}, {"mul", {kX, kAny}, {kA}}, plus_one, curve, from},
               join_gelu});
      }
}

}  // namespace

Patterns activation_patterns() {
  Patterns all;
  add_silu(all);
  add_hardswish(all);
  add_gelu(all);
  return all;
}

}  // namespace mica

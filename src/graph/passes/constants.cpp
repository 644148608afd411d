#include <cmath>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/fill/fill.h"

namespace mica {
namespace {

/// As a tensor of this dtype holds it.
double held(double value, DType dtype) { return held_in(dtype, value).to_double(); }

/// The number that a call of numbers gives, to the bit; none for ops that libraries round each in
/// their own way.
std::optional<double> fold(const Graph& g, const Node& node, double a, double b) {
  constexpr double kSmall = 0x1p30;  // far from where sums and products of integers overflow
  const DType from = g[node.in[0]].spec.dtype;
  const DType to = g[node.out[0]].spec.dtype;
  a = held(a, from);
  b = held(b, from);
  if (node.op->copies) {
    const bool whole = !is_floating(to);
    if (whole && (is_floating(from) || !fits(a, to))) return std::nullopt;
    return held(a, to);
  }
  if (!node.op->algebra.fold) return std::nullopt;
  const double exact = node.op->algebra.fold(a, b);
  if (from == DType::f64) return exact;
  if (is_floating(from)) return held(held(exact, DType::f32), from);  // halves are computed in f32
  if (from == DType::boolean || std::abs(a) > kSmall || std::abs(b) > kSmall) return std::nullopt;
  const double low = std::max(-kSmall, static_cast<double>(integer_limits(from).lowest));
  const double high = std::min(kSmall, static_cast<double>(integer_limits(from).largest));
  return exact >= low && exact <= high ? std::optional(exact) : std::nullopt;
}

}  // namespace

void fold_constants(Graph& graph) {
  Index index(graph);
  for (Node& node : graph.nodes) {
    if (node.op->elementwise == 0 || node.in.size() > 2 || node.out.size() != 1) continue;
    const std::optional<double> a = known_number(graph, index, node.in[0]);
    const std::optional<double> b =
        node.in.size() == 2 ? known_number(graph, index, node.in[1]) : 0;
    const TensorSpec& out = graph[node.out[0]].spec;
    const bool channels_last = out.is_channels_last();
    if (!a || !b || (!channels_last && !out.is_contiguous())) continue;
    const std::optional<double> value = fold(graph, node, *a, *b);
    if (!value) continue;
    static const OpDef& full = find_op("full");
    node.op = &full;
    node.params = AnyParams(ParamsRef::of(
        FullParams{out.shape, held_in(out.dtype, *value), out.dtype, out.device, channels_last}));
    node.in.clear();
  }
}

}  // namespace mica

#include <algorithm>
#include <cmath>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {
namespace {

bool is_zero(std::optional<double> v, bool negative) {
  return v && *v == 0 && std::signbit(*v) == negative;
}

bool is_one_of(const Node& node, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view n) { return is(node, n); });
}

/// The operand that x op c equals.
ValueId beside_neutral(const Graph& g, const Writes& writes, const Node& node) {
  const std::optional<double> a = known_number(g, writes, node.in[0]);
  const std::optional<double> b = known_number(g, writes, node.in[1]);
  const bool whole = !is_floating(g[node.out[0]].spec.dtype);
  if (is(node, "mul")) return b == 1 ? node.in[0] : a == 1 ? node.in[1] : kNoValue;
  if (is(node, "div")) return b == 1 ? node.in[0] : kNoValue;
  if (is(node, "sub")) return is_zero(b, false) ? node.in[0] : kNoValue;
  // Of floats only -0 is neutral: -0 + 0 is 0.
  if (is_zero(b, !whole)) return node.in[0];
  return is_zero(a, !whole) ? node.in[1] : kNoValue;
}

ValueId equal(const Graph& g, const Writes& writes, const Node& node) {
  if (is_one_of(node, {"add", "sub", "mul", "div"})) return beside_neutral(g, writes, node);
  if (is(node, "copy")) return node.in[0];  // replaced where it lies alike
  const Node* inner = node.in.size() == 1 ? maker(g, node.in[0]) : nullptr;
  if (!inner || inner->op != node.op) return kNoValue;
  if (is_one_of(node, {"neg", "bitwise_not"})) return inner->in[0];
  const bool idempotent =
      is_one_of(node, {"relu", "abs", "sign", "floor", "ceil", "trunc", "round"});
  return idempotent ? node.in[0] : kNoValue;
}

}  // namespace

void remove_identities(Graph& graph) { replace_results(graph, equal); }

}  // namespace mica

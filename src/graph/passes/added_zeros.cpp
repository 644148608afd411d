#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {
namespace {

/// Whether a zero beside an identity element that is a zero too, of either sign, is known.
bool is_zero(std::optional<double> number, std::optional<double> identity) {
  return identity == 0 && number == 0;
}

ValueId equal(const Graph& g, const Index& index, const Node& node) {
  if (node.in.size() != 2) return kNoValue;
  const Algebra& algebra = node.op->algebra;
  if (is_zero(known_number(g, index, node.in[1]), algebra.right_identity)) return node.in[0];
  if (is_zero(known_number(g, index, node.in[0]), algebra.left_identity)) return node.in[1];
  return kNoValue;
}

}  // namespace

void remove_added_zeros(Graph& graph) { replace_results(graph, equal); }

}  // namespace mica

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {
namespace {

/// Whether a zero beside an identity element that is a zero too, of either sign, is known.
bool is_zero(const Graph& g, ValueId id, std::optional<double> identity) {
  return identity == 0 && unwritten_number(g, id) == 0;
}

ValueId equal(const Graph& g, const Node& node) {
  if (node.in.size() != 2) return kNoValue;
  const Algebra& algebra = node.op->algebra;
  if (is_zero(g, node.in[1], algebra.right_identity)) return node.in[0];
  if (is_zero(g, node.in[0], algebra.left_identity)) return node.in[1];
  return kNoValue;
}

}  // namespace

void remove_added_zeros(Graph& graph) { replace_results(graph, equal); }

}  // namespace mica

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {
namespace {

ValueId equal(const Graph& g, const Writes& writes, const Node& node) {
  const bool sum = is(node, "add");
  if (!sum && !is(node, "sub")) return kNoValue;
  if (known_number(g, writes, node.in[1]) == 0) return node.in[0];
  return sum && known_number(g, writes, node.in[0]) == 0 ? node.in[1] : kNoValue;
}

}  // namespace

void remove_added_zeros(Graph& graph) { replace_results(graph, equal); }

}  // namespace mica

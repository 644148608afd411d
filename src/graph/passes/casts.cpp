#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {
namespace {

/// Up to here a copy that changes dtype and layout at once is no slower than one of each.
constexpr int64_t kMostTurned = int64_t{1} << 23;

}  // namespace

void merge_casts(Graph& graph) {
  if (!any_node(graph, [](const Node& node) { return node.op->copies; })) return;
  Index index(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (!node.op->copies) continue;
    const Node* inner = maker(graph, node.in[0]);
    if (!inner || !inner->op->copies || index.uses(node.in[0]) != 1) continue;
    const ValueId first = inner->in[0];
    const DType from = graph[first].spec.dtype;
    const DType to = graph[node.out[0]].spec.dtype;
    // Floats outside the range of integers become what the kernel for these two dtypes makes them.
    const bool undefined = is_floating(from) && !is_floating(to);
    const DType between = graph[node.in[0]].spec.dtype;
    const bool lays_out = between == to && graph[first].spec.numel() <= kMostTurned;
    const bool keeps = lays_out || (!undefined && holds_all(between, from));
    if (!keeps || index.ever(node.in[0]) || !index.lasts_until(first, static_cast<int>(i)))
      continue;
    index.forget(static_cast<int>(i));
    node.in[0] = first;
    index.note(static_cast<int>(i));
  }
}

}  // namespace mica

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {

void fuse_linear_cross_entropy(Graph& graph) {
  static const OpDef& both = find_op("linear_cross_entropy");
  const Writes writes(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& loss = graph.nodes[static_cast<size_t>(i)];
    if (!is(loss, "cross_entropy_with_grad")) continue;
    const ValueId logits = loss.in[0];
    const Node* layer = sole_maker(graph, writes, logits);
    if (!layer || !is(*layer, "linear") || !both.dtypes.contains(graph[logits].spec.dtype))
      continue;
    const Node joined{
        &both, loss.params, {layer->in[0], layer->in[1], layer->in[2], loss.in[1]}, loss.out, {}};
    if (!fits_at(graph, writes, joined, i) || !has_joined_kernel(graph, joined)) continue;
    keep[static_cast<size_t>(graph[logits].node)] = false;
    put(graph, writes, joined, i);
  }
  remove_nodes(graph, keep);
}

}  // namespace mica

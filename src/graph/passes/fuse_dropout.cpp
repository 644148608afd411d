#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {

void fuse_dropout(Graph& graph) {
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    if (!is(node, "relu_grad")) continue;
    const ValueId dropped = node.in[0];
    const Node* dropout = sole_maker(graph, index, dropped);
    if (!dropout || !is(*dropout, "dropout") || dropout->in[2] != kNoValue) continue;
    const Node joined{
        dropout->op, dropout->params, {dropout->in[0], dropout->in[1], node.in[1]}, node.out, {}};
    if (!fits_at(graph, index, joined, i) || !has_joined_kernel(graph, joined)) continue;
    put(graph, index, joined, i);
    keep[static_cast<size_t>(graph[dropped].node)] = false;
  }
  remove_nodes(graph, keep);
}

}  // namespace mica

#include <algorithm>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {

void remove_dead_nodes(Graph& graph) {
  std::vector<bool> used(graph.values.size());
  for (const ValueId id : graph.outputs) used[static_cast<size_t>(id)] = true;
  std::vector<bool> keep(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    keep[i] = graph.has_effect(node) ||
              std::any_of(node.out.begin(), node.out.end(),
                          [&](ValueId id) { return used[static_cast<size_t>(id)]; });
    if (!keep[i]) continue;
    for (const ValueId id : node.in)
      if (id != kNoValue) used[static_cast<size_t>(id)] = true;
  }
  remove_nodes(graph, keep);
}

}  // namespace mica

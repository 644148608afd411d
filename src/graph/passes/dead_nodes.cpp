#include <algorithm>

#include "mica/graph/passes/passes.h"

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
  // `after` and `Value::node` count nodes: translate them to the new numbers.
  std::vector<int> number(graph.nodes.size(), -1);
  std::vector<Node> kept;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!keep[i]) continue;
    number[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(graph.nodes[i]));
  }
  for (Node& node : kept) {
    std::erase_if(node.after, [&](int i) { return !keep[static_cast<size_t>(i)]; });
    for (int& i : node.after) i = number[static_cast<size_t>(i)];
  }
  for (Value& v : graph.values)
    if (v.node >= 0) v.node = number[static_cast<size_t>(v.node)];
  graph.nodes = std::move(kept);
}

}  // namespace mica

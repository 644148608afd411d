#include <algorithm>
#include <numeric>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {
namespace {

constexpr double kSmallBytes = 1 << 16;
constexpr double kComputedBytes = 1 << 22;

double bytes(const Graph& g, const std::vector<ValueId>& ids) {
  return std::accumulate(ids.begin(), ids.end(), 0.0, [&](double sum, ValueId id) {
    if (id == kNoValue) return sum;
    const TensorSpec& s = g[id].spec;
    return sum + static_cast<double>(s.numel()) * static_cast<double>(size_of(s.dtype));
  });
}

/// What is kept takes memory for as long as the plan lives: no more than a wider copy of what it is
/// made from (floats of bytes), or what a table takes that a model computes of positions: a filter,
/// a mask, an embedding. What is made of nothing, one number everywhere, is made again as fast as
/// it is read.
bool is_worth_keeping(const Graph& g, const Node& node) {
  const double small = node.in.empty() ? kSmallBytes : kComputedBytes;
  return node.is_view() || bytes(g, node.out) <= std::max(small, 4 * bytes(g, node.in));
}

}  // namespace

void hoist(Graph& graph) {
  const std::vector<bool> constant = constants(graph);
  const size_t count = graph.nodes.size();
  std::vector<bool> early(count);
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes[i];
    // What stays behind keeps back what is made of it.
    const bool ready = std::all_of(node.in.begin(), node.in.end(), [&](ValueId id) {
      return id == kNoValue || graph[id].node < 0 || early[static_cast<size_t>(graph[id].node)];
    });
    const bool already = static_cast<int>(i) < graph.prologue;
    early[i] = already || (ready && is_worth_keeping(graph, node) &&
                           std::all_of(node.out.begin(), node.out.end(), [&](ValueId id) {
                             return constant[static_cast<size_t>(id)];
                           }));
    if (early[i]) order.push_back(i);
  }
  graph.prologue = static_cast<int>(order.size());
  for (size_t i = 0; i < count; ++i)
    if (!early[i]) order.push_back(i);
  std::vector<int> number(count);
  std::vector<Node> nodes;
  nodes.reserve(count);
  for (size_t place = 0; place < count; ++place) {
    number[order[place]] = static_cast<int>(place);
    nodes.push_back(std::move(graph.nodes[order[place]]));
  }
  for (Value& v : graph.values)
    if (v.node >= 0) v.node = number[static_cast<size_t>(v.node)];
  graph.nodes = std::move(nodes);
}

}  // namespace mica

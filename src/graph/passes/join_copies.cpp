#include <algorithm>
#include <map>
#include <tuple>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/copy/copies.h"
#include "mica/ops/copy/copy.h"

namespace mica {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 25;  // of a tensor, for which a launch is no time

/// A copy of floats that lies in memory of its own and is no result of the graph.
bool is_candidate(const Graph& g, const Index& index, int i) {
  const Node& node = g.nodes[static_cast<size_t>(i)];
  if (i < g.prologue || !node.op->copies || node.in.size() != 1 || node.out.size() != 1)
    return false;
  const TensorSpec& from = g[node.in[0]].spec;
  const TensorSpec& to = g[node.out[0]].spec;
  return is_floating(from.dtype) && is_floating(to.dtype) && from.numel() > 0 &&
         from.numel() * static_cast<int64_t>(std::max(size_of(from.dtype), size_of(to.dtype))) <=
             kMostBytes &&
         !index.is_result(node.out[0]) && !index.ever(node.out[0]);
}

/// Those of some copies that could be made where another is.
std::vector<int> movable(const Graph& g, const Index& index, const std::vector<int>& copies,
                         int place) {
  std::vector<int> all;
  for (const int i : copies) {
    const Node& node = g.nodes[static_cast<size_t>(i)];
    const ValueId from = node.in[0];
    const auto readers = index.readers(node.out[0]);
    const bool fits = i == place  ? true
                      : i > place ? g[from].node < place && !index.between(from, place, i)
                                  : (readers.empty() || readers.front() > place) &&
                                        !index.between(from, i, place);
    if (fits) all.push_back(i);
  }
  return all;
}

}  // namespace

void join_copies(Graph& graph) {
  if (!any_node(graph, [](const Node& node) { return node.op->copies; })) return;
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  // By dtypes and format; of what is there from the start, and of what is made.
  std::map<std::tuple<bool, DType, DType, bool>, std::vector<int>> kinds;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    if (!is_candidate(graph, index, i)) continue;
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    const TensorSpec& to = graph[node.out[0]].spec;
    const auto& params = node.params.as<CopyParams>();
    const bool outside = graph[graph.root(node.in[0])].kind == Value::Kind::external;
    kinds[{outside, graph[node.in[0]].spec.dtype, to.dtype, params.channels_last}].push_back(i);
  }
  for (const auto& [kind, copies] : kinds) {
    const int place = std::get<0>(kind) ? copies.front() : copies.back();
    const std::vector<int> nodes = movable(graph, index, copies, place);
    if (nodes.size() < 2) continue;
    Node whole{&copies_op(), graph.nodes[static_cast<size_t>(place)].params, {}, {}};
    for (const int i : nodes) {
      whole.in.push_back(graph.nodes[static_cast<size_t>(i)].in[0]);
      whole.out.push_back(graph.nodes[static_cast<size_t>(i)].out[0]);
    }
    join_calls(graph, index, nodes, std::move(whole), keep);
  }
  remove_nodes(graph, keep);
}

}  // namespace mica

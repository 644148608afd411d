#include <algorithm>
#include <unordered_map>

#include "mica/graph/passes/rewrite.h"
#include "mica/graph/select_kernels.h"
#include "mica/graph/value_bytes.h"

namespace mica {
namespace {

bool copies_over(const Node& node) { return node.op->copies_over; }

class InPlace {
 public:
  explicit InPlace(Graph& graph)
      : g_(graph),
        uses_(graph.values.size()),
        made_(graph.values.size(), -1),
        keep_(graph.nodes.size(), true) {
    for (const ValueId id : g_.outputs) ++uses_[static_cast<size_t>(g_.root(id))];
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); ++n) {
      const Node& node = g_.nodes[static_cast<size_t>(n)];
      if (node.is_view()) continue;
      for (const ValueId id : node.in) {
        if (id == kNoValue) continue;
        ++uses_[static_cast<size_t>(g_.root(id))];
        if (const Storage* storage = storage_of(id)) touched_[storage].push_back(n);
      }
      for (const ValueId id : g_.results_of(node)) made_[static_cast<size_t>(id)] = n;
    }
  }

  void run() {
    for (int n = g_.prologue; n < static_cast<int>(g_.nodes.size()); ++n)
      if (copies_over(g_.nodes[static_cast<size_t>(n)])) try_at(n);
    remove_nodes(g_, keep_);
  }

 private:
  const Storage* storage_of(ValueId id) const {
    const Value& root = g_[g_.root(id)];
    return root.kind == Value::Kind::external ? root.tensor.storage().get() : nullptr;
  }
  /// Bytes from the start of its storage, for a value that lies outside.
  int64_t start(ValueId id) const {
    return (g_[g_.root(id)].tensor.offset() + offset_in_root(g_, id)) *
           static_cast<int64_t>(size_of(g_[id].spec.dtype));
  }

  void try_at(int number) {
    Node& copy = g_.nodes[static_cast<size_t>(number)];
    const ValueId to = copy.in[0];
    const ValueId from = copy.in[1];
    const Storage* storage = storage_of(to);
    if (!storage || g_[from].kind != Value::Kind::computed || g_[from].base != kNoValue ||
        !lie_alike(g_[to].spec, g_[from].spec) ||
        (reinterpret_cast<uintptr_t>(storage->data()) + static_cast<uintptr_t>(start(to))) % 16 !=
            0)
      return;
    const int maker = made_[static_cast<size_t>(from)];
    std::vector<int>& there = touched_[storage];
    const auto next = std::upper_bound(there.begin(), there.end(), maker);
    if (uses_[static_cast<size_t>(from)] != 1 || maker < g_.prologue || maker >= number ||
        (next != there.end() && *next < number))
      return;
    Node& node = g_.nodes[static_cast<size_t>(maker)];
    const auto result = std::find(node.out.begin(), node.out.end(), from) - node.out.begin();
    for (size_t k = 0; k < node.in.size(); ++k)
      if (node.in[k] != kNoValue && storage_of(node.in[k]) == storage &&
          !(lie_alike(g_[node.in[k]].spec, g_[to].spec) && start(node.in[k]) == start(to) &&
            node.op->may_overwrite(node.params.ref().data, static_cast<int>(k),
                                   static_cast<int>(result))))
        return;
    g_[from].base = to;
    g_[from].in_place = true;
    for (const ValueId version : copy.out) {
      g_[version].node = maker;
      node.out.push_back(version);
    }
    there.insert(next, maker);
    std::erase(there, number);
    keep_[static_cast<size_t>(number)] = false;
  }

  Graph& g_;
  std::vector<int> uses_;  ///< of a root, by nodes that compute and results
  std::vector<int> made_;  ///< by value: the node whose result it is
  std::unordered_map<const Storage*, std::vector<int>> touched_;  ///< by whom, in order
  std::vector<bool> keep_;                                        ///< by node: whether it stays
};

}  // namespace

void compute_in_place(Graph& graph) {
  if (std::any_of(graph.nodes.begin() + graph.prologue, graph.nodes.end(), copies_over))
    InPlace(graph).run();
}

}  // namespace mica

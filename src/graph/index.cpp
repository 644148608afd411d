#include "mica/graph/index.h"

#include <algorithm>
#include <iterator>

namespace mica {

Index::Index(const Graph& graph)
    : graph_(graph), room_(64 * graph.nodes.size() + 32 * graph.values.size()) {
  grow();
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) note(i);
  for (const ValueId id : graph.outputs) ++results_[static_cast<size_t>(id)];
  for (size_t v = 0; v < graph.values.size(); ++v) note_view(static_cast<ValueId>(v));
}

/// Calls f(operand, whether the node writes to it).
template <class F>
void Index::each_operand(int number, F&& f) const {
  const Node& node = graph_.nodes[static_cast<size_t>(number)];
  const int n = static_cast<int>(node.in.size());
  for (int k = 0; k < n; ++k)
    if (const ValueId id = node.in[static_cast<size_t>(k)]; id != kNoValue)
      f(id, node.op->writes(node.params.ref().data, k, n));
}

void Index::grow() {
  if (readers_.size() == graph_.values.size()) return;
  readers_.resize(graph_.values.size());
  views_.resize(graph_.values.size());
  results_.resize(graph_.values.size());
}

std::span<const int> Index::readers(ValueId id) const {
  const auto v = static_cast<size_t>(id);
  return v < readers_.size() ? std::span<const int>(readers_[v]) : std::span<const int>();
}

bool Index::is_result(ValueId id) const {
  const auto v = static_cast<size_t>(id);
  return v < results_.size() && results_[v] > 0;
}

int Index::uses(ValueId id) const {
  const auto v = static_cast<size_t>(id);
  return static_cast<int>(readers(id).size()) + (v < results_.size() ? results_[v] : 0);
}

std::span<const ValueId> Index::views(ValueId id) const {
  const auto v = static_cast<size_t>(id);
  return v < views_.size() ? std::span<const ValueId>(views_[v]) : std::span<const ValueId>();
}

int Index::last_use(ValueId root) const {
  int last = -1;
  std::vector<ValueId> open = {root};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (is_result(id)) return static_cast<int>(graph_.nodes.size());
    if (!readers(id).empty()) last = std::max(last, readers(id).back());
    open.insert(open.end(), views(id).begin(), views(id).end());
  }
  return last;
}

void Index::forget(int number) {
  const auto erase = [&](List& all) {
    all.erase(std::lower_bound(all.begin(), all.end(), number));
  };
  each_operand(number, [&](ValueId id, bool written) {
    erase(readers_[static_cast<size_t>(id)]);
    if (!written) return;
    const auto writers = writers_.find(memory(id));
    erase(writers->second);
    if (writers->second.empty()) writers_.erase(writers);
  });
}

void Index::note(int number) {
  grow();
  const auto insert = [&](List& all) {
    all.insert(std::upper_bound(all.begin(), all.end(), number), number);
  };
  each_operand(number, [&](ValueId id, bool written) {
    insert(readers_[static_cast<size_t>(id)]);
    if (written) insert(writers_[memory(id)]);
  });
}

void Index::rename(ValueId from, ValueId to) {
  const auto f = static_cast<size_t>(from);
  const auto t = static_cast<size_t>(to);
  List both(&room_);
  std::merge(readers_[f].begin(), readers_[f].end(), readers_[t].begin(), readers_[t].end(),
             std::back_inserter(both));
  readers_[t] = std::move(both);
  readers_[f].clear();
  views_[t].insert(views_[t].end(), views_[f].begin(), views_[f].end());
  views_[f].clear();
  results_[t] += std::exchange(results_[f], 0);
}

void Index::forget_view(ValueId id) {
  const ValueId base = graph_[id].base;
  if (base != kNoValue) std::erase(views_[static_cast<size_t>(base)], id);
}

void Index::note_view(ValueId id) {
  grow();
  const ValueId base = graph_[id].base;
  if (base != kNoValue) views_[static_cast<size_t>(base)].push_back(id);
}

Index::Memory Index::memory(ValueId id) const {
  const ValueId root = graph_.root(id);
  const Value& v = graph_[root];
  if (v.kind == Value::Kind::external) return {v.tensor.storage().get(), kNoValue};
  return {nullptr, root};
}

int Index::next(ValueId id, int node) const {
  const auto it = writers_.find(memory(id));
  if (it == writers_.end()) return -1;
  const auto at = std::upper_bound(it->second.begin(), it->second.end(), node);
  return at == it->second.end() ? -1 : *at;
}

bool Index::between(ValueId id, int first, int last) const {
  const int at = next(id, first - 1);
  return at >= 0 && at <= last;
}

bool Index::ever(ValueId id) const { return writers_.contains(memory(id)); }

bool Index::lasts_until(ValueId id, int last) const {
  return !between(id, graph_[id].node + 1, last);
}

}  // namespace mica

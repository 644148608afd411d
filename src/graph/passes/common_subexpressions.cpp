#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {
namespace {

double bytes(const TensorSpec& s) {
  return static_cast<double>(s.numel()) * static_cast<double>(size_of(s.dtype));
}

/// Where results are in memory: when each computed value is read last, and how many bytes are alive
/// at each node.
struct Life {
  std::vector<int> last;     ///< by root value
  std::vector<double> live;  ///< by node; after merging at most so many
  double peak = 0;

  explicit Life(const Graph& g) : last(g.values.size(), -1), live(g.nodes.size()) {
    const int end = static_cast<int>(g.nodes.size());
    for (int i = 0; i < end; ++i)
      for (const ValueId id : g.nodes[static_cast<size_t>(i)].in)
        if (id != kNoValue) last[static_cast<size_t>(g.root(id))] = i;
    for (const ValueId id : g.outputs) last[static_cast<size_t>(g.root(id))] = end - 1;
    for (size_t v = 0; v < g.values.size(); ++v) {
      const Value& value = g.values[v];
      if (value.kind != Value::Kind::computed || value.base != kNoValue || value.node < 0) continue;
      // What begins and ends at each node first, their sum below.
      live[static_cast<size_t>(value.node)] += bytes(value.spec);
      const int gone = std::max(last[v], value.node) + 1;
      if (gone < end) live[static_cast<size_t>(gone)] -= bytes(value.spec);
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    for (const double b : live) peak = std::max(peak, b);
  }

  /// Results of `first` are used instead of those of `second`, which stands at node `at`.
  void merge(const Graph& g, ValueId first, ValueId second, int at) {
    int& until = last[static_cast<size_t>(first)];
    const int end = std::max(at, last[static_cast<size_t>(second)]);
    for (int i = std::max(until, g[first].node) + 1; i <= end; ++i)
      live[static_cast<size_t>(i)] += bytes(g[first].spec);
    for (int i = at; i <= end; ++i) live[static_cast<size_t>(i)] -= bytes(g[second].spec);
    until = std::max(until, end);
  }

  /// Whether the results of node `first` can stay until node `second` without raising the peak.
  bool allows(const Graph& g, int first, int second) const {
    for (int i = first; i < second; ++i) {
      double more = live[static_cast<size_t>(i)];
      for (const ValueId id : g.nodes[static_cast<size_t>(first)].out)
        if (last[static_cast<size_t>(id)] < i) more += bytes(g[id].spec);
      if (more > peak) return false;
    }
    return true;
  }
};

std::vector<ValueId> operands(const Node& node) {
  std::vector<ValueId> in = node.in;
  if (node.op->algebra.commutes) std::sort(in.begin(), in.end());
  return in;
}

uint64_t params_hash(const Node& node) {
  const ParamsRef p = node.params.ref();
  return p.info->hash(p.data);
}

uint64_t hash(const Node& node) {
  uint64_t h = hash_mix(params_hash(node), reinterpret_cast<uintptr_t>(node.op));
  for (const ValueId id : operands(node)) h = hash_mix(h, static_cast<uint64_t>(id));
  return h;
}

/// Whether two calls are one. The hashes of parameters tell 0 from -0, which are equal numbers.
bool same_call(const Node& a, const Node& b) {
  return a.op == b.op && a.params == b.params && params_hash(a) == params_hash(b) &&
         operands(a) == operands(b);
}

class Merger {
 public:
  explicit Merger(Graph& graph) : g_(graph), index_(graph), life_(graph) {}

  void run() {
    std::unordered_multimap<uint64_t, int> seen;
    std::vector<bool> keep(g_.nodes.size(), true);
    for (int i = 0; i < static_cast<int>(g_.nodes.size()); ++i) {
      const Node& node = g_.nodes[static_cast<size_t>(i)];
      if (writes_input(node)) continue;
      const uint64_t h = hash(node);
      const auto [begin, end] = seen.equal_range(h);
      const bool merged =
          std::any_of(begin, end, [&](const auto& entry) { return merge(entry.second, i); });
      if (!merged) seen.emplace(h, i);
      keep[static_cast<size_t>(i)] = !merged;
    }
    remove_nodes(g_, keep);
  }

 private:
  bool merge(int first, int second) {
    const Node& a = g_.nodes[static_cast<size_t>(first)];
    const Node& b = g_.nodes[static_cast<size_t>(second)];
    if (!same_call(a, b)) return false;
    if (!a.is_view()) {
      for (const ValueId id : a.in)
        if (id != kNoValue && index_.between(id, first, second)) return false;
      for (size_t k = 0; k < a.out.size(); ++k)
        if (index_.ever(a.out[k]) || index_.ever(b.out[k]) ||
            !lie_alike(g_[a.out[k]].spec, g_[b.out[k]].spec))
          return false;
      if (!life_.allows(g_, first, second)) return false;
    }
    for (size_t k = 0; k < a.out.size(); ++k) {
      if (!replace(g_, index_, b.out[k], a.out[k])) return false;
      if (!a.is_view()) life_.merge(g_, a.out[k], b.out[k], second);
    }
    return true;
  }

  Graph& g_;
  Index index_;
  Life life_;
};

}  // namespace

void merge_common_subexpressions(Graph& graph) { Merger(graph).run(); }

}  // namespace mica

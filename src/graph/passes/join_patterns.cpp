#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/op/pattern.h"

namespace mica {
namespace {

/// The calls of a graph that a pattern may be.
class Found : public Match {
 public:
  Found(const Graph& graph, const Index& index, const std::vector<bool>& keep,
        const Pattern& pattern)
      : g_(graph), index_(index), keep_(keep), pattern_(pattern) {}

  /// Looks for the pattern's calls from node `first` on.
  bool find(int first) {
    nodes_.reserve(pattern_.calls.size());
    values_.reserve(4 * pattern_.calls.size());
    if (!take(0, first)) return false;
    for (size_t c = 1; c < pattern_.calls.size(); ++c)
      if (!find_call(c)) return false;
    for (const int i : nodes_) {
      const Node& node = g_.nodes[static_cast<size_t>(i)];
      calls.push_back({node.op, node.params, node.in, node.out, i});
    }
    return true;
  }
  /// The nodes that are to be replaced, in order.
  std::vector<int> replaced(const std::vector<int>& also = {}) const {
    std::vector<int> all = also;
    for (size_t c = 0; c < nodes_.size(); ++c)
      if (!pattern_.calls[c].stays) all.push_back(nodes_[c]);
    std::sort(all.begin(), all.end());
    return all;
  }

  const TensorSpec& spec(int value) const override { return g_[value].spec; }
  std::optional<double> number(int value) const override { return known_number(g_, index_, value); }
  bool goes(int value) const override {
    const std::vector<int> mine = replaced();
    const auto readers = index_.readers(value);
    return !index_.is_result(value) && !index_.ever(value) &&
           std::all_of(readers.begin(), readers.end(), [&](int reader) {
             return std::binary_search(mine.begin(), mine.end(), reader);
           });
  }
  bool lasts(int value) const override {
    return value == kNoValue || index_.lasts_until(value, nodes_[0]);
  }
  std::optional<MatchedCall> maker(int value) const override {
    const Node* node = mica::maker(g_, value);
    if (!node || !keep_[static_cast<size_t>(g_[value].node)]) return std::nullopt;
    return MatchedCall{node->op, node->params, node->in, node->out, g_[value].node};
  }
  int last_before(bool (*is)(const OpDef& op)) const override {
    int i = nodes_[0] - 1;
    while (i >= 0 && !(keep_[static_cast<size_t>(i)] && is(*g_.nodes[static_cast<size_t>(i)].op)))
      --i;
    return i;
  }
  bool has_kernel(const MatchedCall& call) const override {
    return has_joined_kernel(g_, {call.op, call.params, call.in, call.out});
  }

 private:
  /// The value of a number of the pattern; none where it is not known yet.
  std::optional<ValueId> known(int number) const {
    for (const auto& [n, value] : values_)
      if (n == number) return value;
    return std::nullopt;
  }

  /// By a value that the call makes or reads, and that is known.
  bool find_call(size_t c) {
    const Pattern::Call& call = pattern_.calls[c];
    for (const int number : call.out)
      if (const auto value = number == Pattern::kAny ? std::nullopt : known(number))
        return *value != kNoValue && g_[*value].node >= 0 && take(c, g_[*value].node);
    for (const int number : call.in) {
      const auto value = number == Pattern::kAny ? std::nullopt : known(number);
      if (!value || *value == kNoValue) continue;
      for (const int reader : index_.readers(*value))
        if (take(c, reader)) return true;
      return false;
    }
    return false;
  }

  /// Takes a node for a call of the pattern, where all that is said of it is so.
  bool take(size_t c, int number) {
    const Pattern::Call& call = pattern_.calls[c];
    const Node& node = g_.nodes[static_cast<size_t>(number)];
    if (!keep_[static_cast<size_t>(number)] || std::string_view(node.op->name) != call.op ||
        node.in.size() < call.in.size() || node.out.size() < call.out.size() ||
        std::find(nodes_.begin(), nodes_.end(), number) != nodes_.end())
      return false;
    const size_t before = values_.size();
    const auto agrees = [&](int n, ValueId id) {
      if (n == Pattern::kAny) return true;
      if (const auto value = known(n)) return *value == id;
      values_.emplace_back(n, id);
      return true;
    };
    for (size_t k = 0; k < call.in.size() + call.out.size(); ++k) {
      const size_t result = k - call.in.size();
      if (k < call.in.size() ? agrees(call.in[k], node.in[k])
                             : agrees(call.out[result], node.out[result]))
        continue;
      values_.resize(before);
      return false;
    }
    nodes_.push_back(number);
    return true;
  }

  const Graph& g_;
  const Index& index_;
  const std::vector<bool>& keep_;  ///< by node: whether it is there still
  const Pattern& pattern_;
  std::vector<std::pair<int, ValueId>> values_;  ///< of numbers of the pattern; a few
  std::vector<int> nodes_;                       ///< by call of the pattern
};

/// Puts two calls in the places of several, given in order: the first makes a value that the second
/// reads, which stands where the last of them stood.
void put_two(Graph& graph, Index& index, const Found& found, const std::vector<int>& nodes,
             const MatchedCall& answer, std::vector<bool>& keep) {
  const MatchedCall& before = answer.before[0];
  const int place = before.place >= 0 ? before.place : nodes.front();
  const int last = nodes.back();
  const auto between = static_cast<ValueId>(graph.values.size());
  const auto node_of = [&](const MatchedCall& call) {
    Node node{call.op, call.params, call.in, call.out};
    for (auto* list : {&node.in, &node.out})
      std::replace(list->begin(), list->end(), MatchedCall::kBetween, between);
    return node;
  };
  const Node first = node_of(before);
  const Node second = node_of(answer);
  const auto makes = [](const Node& node, ValueId id) {
    return std::find(node.out.begin(), node.out.end(), id) != node.out.end();
  };
  // Whether nobody but these calls reads a value until the last of them.
  const auto is_late = [&](ValueId id) {
    const auto readers = index.readers(id);
    return !index.ever(id) && std::all_of(readers.begin(), readers.end(), [&](int reader) {
      return reader > last || std::binary_search(nodes.begin(), nodes.end(), reader);
    });
  };
  for (const int i : nodes) {
    const Node& old = graph.nodes[static_cast<size_t>(i)];
    const auto stays = [&](ValueId id) {
      return (makes(first, id) && place <= i) ||
             (makes(second, id) && (i == last || is_late(id))) || found.goes(id);
    };
    if (writes_input(old) || (i < graph.prologue) != (place < graph.prologue) ||
        !std::all_of(old.out.begin(), old.out.end(), stays))
      return;
  }
  Value value;
  value.spec = answer.between;
  value.node = place;
  graph.values.push_back(std::move(value));
  if (!fits_at(graph, index, first, place) || !fits_at(graph, index, second, last) ||
      !has_joined_kernel(graph, first) || !has_joined_kernel(graph, second)) {
    graph.values.pop_back();
    return;
  }
  put(graph, index, first, place);
  put(graph, index, second, last);
  for (const int i : nodes) {
    if (i == place || i == last) continue;
    index.forget(i);
    graph.nodes[static_cast<size_t>(i)].in.clear();
    keep[static_cast<size_t>(i)] = false;
  }
}

}  // namespace

void join_patterns(Graph& graph) {
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  std::unordered_map<std::string_view, std::vector<int>> calls;  // by op, where they are or were
  const auto note = [&](int i) {
    std::vector<int>& all = calls[graph.nodes[static_cast<size_t>(i)].op->name];
    const auto at = std::lower_bound(all.begin(), all.end(), i);
    if (at == all.end() || *at != i) all.insert(at, i);
  };
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) note(i);
  for (const Pattern& pattern : all_patterns())
    for (const int i : std::vector<int>(calls[pattern.calls[0].op])) {
      if (std::string_view(graph.nodes[static_cast<size_t>(i)].op->name) != pattern.calls[0].op)
        continue;
      Found found(graph, index, keep, pattern);
      if (!found.find(i)) continue;
      const std::optional<MatchedCall> joined = pattern.join(found);
      if (!joined) continue;
      const std::vector<int> nodes = found.replaced(joined->also_replaces);
      if (joined->before.empty()) {
        join_calls(graph, index, nodes, {joined->op, joined->params, joined->in, joined->out},
                   keep);
      } else {
        put_two(graph, index, found, nodes, *joined, keep);
      }
      for (const int node : nodes) note(node);
    }
  remove_nodes(graph, keep);
}

}  // namespace mica

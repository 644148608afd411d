#include <algorithm>
#include <memory_resource>
#include <queue>
#include <unordered_map>
#include <utility>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/op/settings.h"
#include "mica/ops/fused/fused.h"

namespace mica {
namespace {

/// A pass makes its lists and drops them: thousands of short ones, of which none is freed alone.
using List = std::pmr::vector<int>;

/// Whether two nodes of which one reads the other's result could be parts of one program.
bool could_join(const Graph& g, int from, int to, ValueId id) {
  const Node& before = g.nodes[static_cast<size_t>(from)];
  const Node& after = g.nodes[static_cast<size_t>(to)];
  const TensorSpec& result = g[after.out[0]].spec;
  return (from < g.prologue) == (to < g.prologue) && g[id].spec.shape == result.shape &&
         g[id].spec.lies_like(result) && fits_program(g, before) && fits_program(g, after);
}

bool any_could_join(const Graph& g) {
  for (int i = 0; i < static_cast<int>(g.nodes.size()); ++i) {
    const Node& node = g.nodes[static_cast<size_t>(i)];
    if (node.op->elementwise == 0) continue;
    for (const ValueId id : node.in)
      if (id != kNoValue && g[id].node >= 0 && could_join(g, g[id].node, i, id)) return true;
  }
  return false;
}

class Fusion {
 public:
  explicit Fusion(Graph& graph) : g_(graph), count_(static_cast<int>(graph.nodes.size())) {
    readers_.resize(g_.values.size());
    returned_.resize(g_.values.size());
    next_.resize(at(count_));
    seen_.resize(at(count_));
    crossing_.resize(at(count_));
    for (int i = 0; i < count_; ++i) {
      group_.push_back(i);
      members_.emplace_back().push_back(i);
      for (const ValueId id : node(i).in)
        if (id != kNoValue) readers_[at(id)].push_back(i);
    }
    for (const ValueId id : g_.outputs) returned_[at(id)] = true;
    find_order();
  }

  void run() {
    for (int i = 0; i < count_; ++i) {
      if (!fits_program(g_, node(i))) continue;
      for (const ValueId id : node(i).in) {
        const int from = g_[id].node;
        if (from >= 0 && group_[at(from)] != group_[at(i)] && could_join(g_, from, i, id))
          try_to_join(group_[at(from)], group_[at(i)]);
      }
    }
    if (joined_) rewrite();
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }
  const Node& node(int i) const { return g_.nodes[at(i)]; }

  /// What must run after what: readers after what they read, and everything that touches memory
  /// which somebody writes in the order it came in.
  void find_order() {
    struct Memory {
      int writer = -1;
      List readers;
    };
    std::pmr::unordered_map<const void*, Memory> outside(&room_);
    std::pmr::unordered_map<ValueId, Memory> inside(&room_);
    const auto of = [&](auto& memories, auto key) -> Memory& {
      return memories.try_emplace(key, Memory{-1, List(&room_)}).first->second;
    };
    const auto add = [&](int before, int after) {
      if (before >= 0 && before != after) next_[at(before)].push_back(after);
    };
    for (int i = 0; i < count_; ++i) {
      const int n = static_cast<int>(node(i).in.size());
      for (int k = 0; k < n; ++k) {
        const ValueId id = node(i).in[at(k)];
        if (id == kNoValue) continue;
        add(g_[id].node, i);
        const ValueId root = g_.root(id);
        Memory& memory = g_[root].kind == Value::Kind::external
                             ? of(outside, g_[root].tensor.storage().get())
                             : of(inside, root);
        add(memory.writer, i);
        if (node(i).op->writes(node(i).params.ref().data, k, n)) {
          for (const int reader : memory.readers) add(reader, i);
          memory.writer = i;
          memory.readers.clear();
        } else {
          memory.readers.push_back(i);
        }
      }
    }
  }

  bool is_used_outside(ValueId id, int group) const {
    return returned_[at(id)] ||
           std::any_of(readers_[at(id)].begin(), readers_[at(id)].end(),
                       [&](int reader) { return group_[at(reader)] != group; });
  }
  /// The values a group reads from outside, each once.
  std::vector<ValueId> inputs(int group) const {
    std::vector<ValueId> in;
    for (const int i : members_[at(group)])
      for (const ValueId id : node(i).in)
        if ((g_[id].node < 0 || group_[at(g_[id].node)] != group) &&
            std::find(in.begin(), in.end(), id) == in.end())
          in.push_back(id);
    return in;
  }
  /// The members whose results are needed outside.
  std::vector<int> outputs(int group) const {
    std::vector<int> out;
    for (const int i : members_[at(group)])
      if (is_used_outside(node(i).out[0], group)) out.push_back(i);
    return out;
  }

  /// Whether a path leaves the group and comes back. Groups that exist count as one node each. What
  /// stands behind a place that no group reaches over cannot come back from there.
  bool comes_back(int group) {
    ++looks_;
    int end = members_[at(group)].back();
    while (end < count_ && crossing_[at(end)] > 0) ++end;
    std::vector<int> open = {group};
    while (!open.empty()) {
      const int here = open.back();
      open.pop_back();
      for (const int i : members_[at(here)])
        for (const int after : next_[at(i)]) {
          const int there = group_[at(after)];
          if (there == here || after > end) continue;
          if (there == group) return true;
          if (seen_[at(there)] == looks_) continue;
          seen_[at(there)] = looks_;
          open.push_back(there);
        }
    }
    return false;
  }

  /// Counts a group among those that reach over the places between their members, or takes it off.
  void count(int group, int by) {
    const List& members = members_[at(group)];
    if (members.empty()) return;
    for (int i = members.front(); i < members.back(); ++i) crossing_[at(i)] += by;
  }

  void move(int from, int to, const List& which) {
    count(from, -1);
    count(to, -1);
    for (const int i : which) {
      std::erase(members_[at(from)], i);
      members_[at(to)].push_back(i);
      group_[at(i)] = to;
    }
    std::sort(members_[at(to)].begin(), members_[at(to)].end());
    count(from, 1);
    count(to, 1);
  }

  void try_to_join(int a, int b) {
    const List moved(members_[at(b)], &room_);
    if (members_[at(a)].size() + moved.size() > Program::kMostInstructions) return;
    move(b, a, moved);
    const size_t results = outputs(a).size();  // none where nobody needs them
    if (inputs(a).size() > Program::kMostInputs || results == 0 ||
        results > Program::kMostOutputs || comes_back(a)) {
      move(a, b, moved);
    } else {
      joined_ = true;
    }
  }

  /// The node of a group.
  Node fused(int group) const {
    const List& members = members_[at(group)];
    std::vector<ValueId> values = inputs(group);
    Program program;
    program.inputs = static_cast<int>(values.size());
    const Node& first = node(members[0]);
    Node whole{&fused_op(), first.params, values, {}, first.id, first.scope};
    for (const int i : members) {
      Instruction one{node(i).op, node(i).params, {}};
      for (const ValueId id : node(i).in)
        one.operands.push_back(
            static_cast<int>(std::find(values.begin(), values.end(), id) - values.begin()));
      program.instructions.push_back(std::move(one));
      values.push_back(node(i).out[0]);
    }
    for (const int i : outputs(group)) {
      whole.out.push_back(node(i).out[0]);
      program.outputs.push_back(
          static_cast<int>(std::find(members.begin(), members.end(), i) - members.begin()));
    }
    whole.params = AnyParams(ParamsRef::of(FusedParams{intern(std::move(program))}));
    return whole;
  }

  /// Puts the groups in the nodes' place, each as late as its last member was.
  void rewrite() {
    std::vector<int> waits(at(count_));
    for (int i = 0; i < count_; ++i)
      for (const int after : next_[at(i)])
        if (group_[at(after)] != group_[at(i)]) ++waits[at(group_[at(after)])];
    using Ready = std::pair<int, int>;  // the last member's place, the group
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    const auto offer = [&](int group) { ready.emplace(members_[at(group)].back(), group); };
    for (int group = 0; group < count_; ++group)
      if (!members_[at(group)].empty() && waits[at(group)] == 0) offer(group);
    std::vector<Node> nodes;
    nodes.reserve(at(count_));
    std::vector<int> number(at(count_));
    const int before = std::exchange(g_.prologue, 0);
    while (!ready.empty()) {
      const int group = ready.top().second;
      ready.pop();
      const List& members = members_[at(group)];
      if (members.back() < before) ++g_.prologue;  // what they wait for is there too
      nodes.push_back(members.size() > 1 ? fused(group) : std::move(g_.nodes[at(members[0])]));
      for (const int i : members) {
        number[at(i)] = static_cast<int>(nodes.size()) - 1;
        for (const int after : next_[at(i)])
          if (group_[at(after)] != group && --waits[at(group_[at(after)])] == 0)
            offer(group_[at(after)]);
      }
    }
    for (Value& v : g_.values)
      if (v.node >= 0) v.node = number[at(v.node)];
    g_.nodes = std::move(nodes);
  }

  Graph& g_;
  int count_;
  std::pmr::monotonic_buffer_resource room_;
  std::pmr::vector<List> readers_{&room_};  ///< by value
  std::vector<bool> returned_;              ///< by value
  std::pmr::vector<List> next_{&room_};     ///< by node: those that must run after it
  std::vector<int> group_;                  ///< by node
  std::pmr::vector<List> members_{&room_};  ///< by group, in the nodes' order
  std::vector<int> crossing_;               ///< by node: groups with members up to it and behind it
  std::vector<int> seen_;                   ///< by group: in which look
  int looks_ = 0;
  bool joined_ = false;
};

}  // namespace

void fuse_elementwise(Graph& graph) {
  const bool cuda = std::any_of(graph.values.begin(), graph.values.end(),
                                [](const Value& v) { return v.spec.device.is_cuda(); });
  if (cuda && deterministic()) return;
  if (any_could_join(graph)) Fusion(graph).run();
}

}  // namespace mica

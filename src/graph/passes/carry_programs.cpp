#include <algorithm>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/anchored/anchored.h"

namespace mica {
namespace {

constexpr size_t kMostCalls = 8;

/// A program that grows by calls, and the values it reads from outside.
class Growing {
 public:
  /// `first` is the program's first input.
  explicit Growing(ValueId first) : values_{first} {}

  /// False where the program would be too large.
  bool add(const Node& node) {
    std::vector<ValueId> in = values_;
    for (const ValueId id : node.in)
      if (std::find(in.begin(), in.end(), id) == in.end() &&
          std::find(made_.begin(), made_.end(), id) == made_.end())
        in.push_back(id);
    if (in.size() > Program::kMostInputs || nodes_.size() == kMostCalls) return false;
    values_ = std::move(in);
    nodes_.push_back(&node);
    made_.push_back(node.out[0]);
    return true;
  }
  /// What it reads beside its first input.
  std::vector<ValueId> others() const { return {values_.begin() + 1, values_.end()}; }

  /// With the last call's result as its own.
  ProgramRef program() const {
    Program p;
    p.inputs = static_cast<int>(values_.size());
    std::vector<ValueId> all = values_;
    for (const Node* node : nodes_) {
      Instruction one{node->op, node->params, {}};
      for (const ValueId id : node->in)
        one.operands.push_back(
            static_cast<int>(std::find(all.begin(), all.end(), id) - all.begin()));
      p.instructions.push_back(std::move(one));
      all.push_back(node->out[0]);
    }
    p.outputs = {static_cast<int>(nodes_.size()) - 1};
    return intern(std::move(p));
  }

 private:
  std::vector<ValueId> values_;
  std::vector<const Node*> nodes_;
  std::vector<ValueId> made_;
};

class Carrying {
 public:
  explicit Carrying(Graph& graph) : g_(graph), index_(graph), keep_(graph.nodes.size(), true) {}

  /// Of two anchors whose results meet the later one carries that, so that neither has to wait.
  void run() {
    for (int i = static_cast<int>(g_.nodes.size()) - 1; i >= 0; --i) {
      if (!keep_[static_cast<size_t>(i)]) continue;
      const OpDef& op = *node(i).op;
      if (op.carries_after.contains(0)) carry_after(i);
      // What carries something after it by now may stand at the place of the last of these calls.
      const bool stays = keep_[static_cast<size_t>(i)] && node(i).op == &op;
      if (stays && op.carries_before.contains(0)) carry_before(i);
    }
    remove_nodes(g_, keep_);
  }

 private:
  const Node& node(int i) const { return g_.nodes[static_cast<size_t>(i)]; }

  /// Whether a call computes, element by element, something that lies like a value.
  bool computes_like(int i, ValueId like) const {
    const Node& n = node(i);
    return fits_program(g_, n) && !index_.ever(n.out[0]) &&
           g_[n.out[0]].spec.shape == g_[like].spec.shape &&
           g_[n.out[0]].spec.lies_like(g_[like].spec);
  }

  /// The call that alone reads a value, or the first of those that do where that is the anchor's
  /// result, which can be kept; -1 where none can be carried.
  int next(ValueId value, ValueId result) const {
    for (const int reader : index_.readers(value)) {
      if (value != result && (index_.is_result(value) || reader != index_.readers(value).back()))
        return -1;
      if (computes_like(reader, result)) return reader;
    }
    return -1;
  }

  void carry_after(int anchor) {
    const ValueId result = node(anchor).out[0];
    if (index_.ever(result)) return;
    std::vector<int> calls;
    ValueId value = result;
    while (calls.size() < kMostCalls) {
      const int call = next(value, result);
      if (call < 0) break;
      calls.push_back(call);
      value = node(call).out[0];
    }
    for (; !calls.empty(); calls.pop_back())
      if (carry_after(anchor, calls)) return;
  }

  bool carry_after(int anchor, const std::vector<int>& calls) {
    return carry_after(anchor, calls, true) || (has_bytes_ && carry_after(anchor, calls, false));
  }
  bool carry_after(int anchor, const std::vector<int>& calls, bool with_bytes) {
    const Node& own = node(anchor);
    const ValueId result = own.out[0];
    Growing program(result);
    std::vector<int> nodes = {anchor};
    has_bytes_ = false;
    for (const int i : calls) {
      for (const ValueId id : node(i).in)
        if (with_bytes && !add_widening(id, i, result, program, nodes)) return false;
      if (!program.add(node(i))) return false;
      nodes.push_back(i);
    }
    std::sort(nodes.begin(), nodes.end());
    const auto reads = [&](int reader) {
      return std::find(calls.begin(), calls.end(), reader) != calls.end();
    };
    const auto readers = index_.readers(result);
    Anchored whole{.op = own.op, .params = own.params};
    whole.after = program.program();
    whole.keeps_result =
        index_.is_result(result) || !std::all_of(readers.begin(), readers.end(), reads);
    Node joined = own;
    for (const ValueId id : program.others()) joined.in.push_back(id);
    joined.out = {node(calls.back()).out[0]};
    if (whole.keeps_result) joined.out.push_back(result);
    joined.out.insert(joined.out.end(), own.out.begin() + 1, own.out.end());
    return put_instead(nodes, std::move(joined), whole);
  }

  /// An operand that calls make of bytes for this reader alone is made in the program, which then
  /// reads the bytes. False where the program would be too large.
  bool add_widening(ValueId id, int reader, ValueId result, Growing& program,
                    std::vector<int>& nodes) {
    std::vector<int> made;  // the last first
    for (ValueId value = id;; value = node(made.back()).in[0]) {
      const Value& v = g_[value];
      if (v.spec.shape == g_[result].spec.shape && size_of(v.spec.dtype) == 1) break;
      const bool alone = !index_.is_result(value) && index_.readers(value).size() == 1 &&
                         index_.readers(value)[0] == (made.empty() ? reader : made.back());
      if (!maker(g_, value) || index_.ever(value) || !alone || !computes_like(v.node, result) ||
          v.node >= reader || std::find(nodes.begin(), nodes.end(), v.node) != nodes.end())
        return true;  // it is read as it is
      made.push_back(v.node);
    }
    has_bytes_ = has_bytes_ || !made.empty();
    for (auto i = made.rbegin(); i != made.rend(); ++i) {
      if (!program.add(node(*i))) return false;
      nodes.push_back(*i);
    }
    return true;
  }

  /// The calls that make the anchor's first operand, each of the first operand of the one after it.
  void carry_before(int anchor) {
    const ValueId operand = node(anchor).in[0];
    std::vector<int> calls;  // the last first
    for (ValueId value = operand; calls.size() < kMostCalls; value = node(calls.back()).in[0]) {
      if (!maker(g_, value) || index_.ever(value)) break;
      const bool alone = !index_.is_result(value) && index_.readers(value).size() == 1;
      const int call = g_[value].node;
      if ((value != operand && !alone) || !computes_like(call, operand)) break;
      calls.push_back(call);
    }
    if (!calls.empty() && goes_with_its_operand(calls[0])) return;
    for (; !calls.empty(); calls.pop_back())
      if (carry_before(anchor, calls)) return;
  }

  /// A sum of an anchor's result that nobody else reads: the anchor adds as it stores, and what
  /// follows reads one tensor instead of two.
  bool goes_with_its_operand(int call) {
    const std::vector<ValueId> operands = node(call).in;
    return operands.size() > 1 && std::any_of(operands.begin(), operands.end(), [&](ValueId id) {
             if (id == kNoValue || !maker(g_, id) || index_.ever(id) || index_.is_result(id) ||
                 index_.readers(id).size() != 1)
               return false;
             const int made = g_[id].node;
             return node(made).op->carries_after.contains(0) && node(made).out[0] == id &&
                    computes_like(call, id) && carry_after(made, std::vector{call});
           });
  }

  bool carry_before(int anchor, const std::vector<int>& calls) {
    const Node& own = node(anchor);
    const ValueId operand = own.in[0];
    const ValueId first = node(calls.back()).in[0];
    if (!lie_alike(g_[first].spec, g_[operand].spec)) return false;
    Growing program(first);
    std::vector<int> nodes;
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      if (!program.add(node(*call))) return false;
      nodes.push_back(*call);
    }
    nodes.push_back(anchor);
    Anchored whole{.op = own.op, .params = own.params};
    whole.before = program.program();
    // Kernels may write it where nobody reads it too.
    whole.keeps_operand = true;
    Node joined = own;
    joined.in[0] = first;
    for (const ValueId id : program.others()) joined.in.push_back(id);
    joined.out.push_back(operand);
    return put_instead(nodes, std::move(joined), whole);
  }

  bool put_instead(const std::vector<int>& nodes, Node joined, const Anchored& whole) {
    joined.op = &anchored_op();
    joined.params = AnyParams(ParamsRef::of(AnchoredParams{intern(whole)}));
    return join_calls(g_, index_, nodes, std::move(joined), keep_);
  }

  Graph& g_;
  Index index_;
  std::vector<bool> keep_;  ///< by node: whether it stays
  bool has_bytes_ = false;  ///< the program that was tried last makes numbers of bytes
};

}  // namespace

void carry_programs(Graph& graph) { Carrying(graph).run(); }

}  // namespace mica

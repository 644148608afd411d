#include "mica/inference/capture_network.h"

#include <algorithm>
#include <unordered_map>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/graph/capture.h"
#include "mica/graph/captured_scopes.h"
#include "mica/graph/passes/passes.h"
#include "mica/inference/network.h"

namespace mica::inference {
namespace {

/// Makes a network of a graph.
class Extract {
 public:
  explicit Extract(const Graph& graph) : graph_(graph) {}

  Network run() {
    for (const ValueId id : graph_.inputs) {
      const TensorSpec& spec = graph_[id].spec;
      numbers_[id] = static_cast<int>(network_.inputs.size());
      network_.inputs.push_back({"", spec.dtype, {spec.shape.begin(), spec.shape.end()}});
    }
    // Constants come before what calls make: all of them are found first.
    for (const Node& node : graph_.nodes)
      for (const ValueId id : node.in) note_constant(id);
    for (const ValueId id : graph_.outputs) note_constant(id);
    next_ = static_cast<int>(network_.inputs.size() + network_.constants.size());
    for (const Node& node : graph_.nodes) add(node);
    for (const ValueId id : graph_.outputs) network_.outputs.push_back(number(id));
    return std::move(network_);
  }

 private:
  void note_constant(ValueId id) {
    if (id == kNoValue || numbers_.contains(id)) return;
    const Value& v = graph_[id];
    if (v.kind != Value::Kind::external || v.node >= 0) return;
    numbers_[id] = static_cast<int>(network_.inputs.size() + network_.constants.size());
    network_.constants.push_back({"", v.tensor});
  }

  int number(ValueId id) const {
    if (id == kNoValue) return -1;
    const auto at = numbers_.find(id);
    check<Unsupported>(at != numbers_.end(),
                       "inference: the network uses memory after a write to another view of it");
    return at->second;
  }

  /// A tensor that is overwritten as a whole is from then on what is written to it.
  void rename_overwritten(const Node& node) {
    const ValueId to = node.in[0];
    const ValueId from = node.in[1];
    const bool whole = node.out.size() == 1 && graph_[node.out[0]].base == to &&
                       graph_[to].spec.shape == graph_[from].spec.shape &&
                       graph_[to].spec.dtype == graph_[from].spec.dtype;
    check<Unsupported>(whole,
                       "inference: {} writes to a part of a tensor, or one that is seen otherwise; "
                       "an inference engine has no such writes (in {})",
                       node.op->name, node.scope ? to_string(*node.scope) : "the network");
    numbers_[node.out[0]] = number(from);
  }

  void add(const Node& node) {
    if (node.op->copies_over) return rename_overwritten(node);
    check<Unsupported>(
        !graph_.has_effect(node) && graph_.results_of(node).size() <= node.out.size(),
        "inference: {} writes to a tensor outside (in {})", node.op->name,
        node.scope ? to_string(*node.scope) : "the network");
    Call call{.op = node.op,
              .params = node.params,
              .outputs = static_cast<int>(node.out.size()),
              .scope = node.scope && node.scope->module != kTopModule ? node.scope->module : ""};
    for (const ValueId id : node.in) call.in.push_back(number(id));
    const int n = static_cast<int>(node.in.size());
    for (int i = 0; i < n; ++i)
      check<Unsupported>(!node.op->writes(node.params.ref().data, i, n),
                         "inference: {} writes to its input {}; an inference engine has no such "
                         "writes",
                         node.op->name, node.op->input(i).name);
    for (const auto& [field, value] : node.params.ref().info->values(node.params.ref().data))
      check<Unsupported>(!std::holds_alternative<std::monostate>(value),
                         "inference: the parameter '{}' of {} cannot be written down", field,
                         node.op->name);
    for (const ValueId id : node.out) numbers_[id] = next_++;
    network_.calls.push_back(std::move(call));
  }

  const Graph& graph_;
  Network network_;
  std::unordered_map<ValueId, int> numbers_;
  int next_ = 0;
};

}  // namespace

Network capture_network(const ValuesFunction& function, const Values& example,
                        std::span<const TensorSpec> specs, Values& form) {
  const NoGrad guard;
  Captured captured = capture(
      [&](std::span<const Tensor> in) {
        const Values made = function(unflatten(example, in));
        form = structure_of(made);
        return flatten(made);
      },
      specs);
  const auto outside = [](const Input& input) { return input.argument < 0; };
  check<Unsupported>(captured.written.empty() && captured.write_backs.empty() &&
                         captured.in_place.empty() && captured.effects.empty() &&
                         std::ranges::none_of(captured.inputs, outside),
                     "inference: the network writes to tensors outside, as layers in training mode "
                     "and random numbers do; an engine computes its results and nothing else");
  run_passes(captured.graph,
             {"dead_nodes", "casts", "identities", "fold_batch_norm", "dead_nodes"});
  return Extract(captured.graph).run();
}

}  // namespace mica::inference

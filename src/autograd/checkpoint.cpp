#include "mica/autograd/checkpoint.h"

#include <algorithm>
#include <unordered_set>

#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/core/values_check.h"
#include "mica/op/autocast.h"
#include "mica/ops/random/random.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

using Function = std::function<Tensors(const Tensors&)>;

/// Where the histories of `outputs` leave the nodes recorded after `since`, `inputs` aside.
std::vector<GradEdge> ends_of(const Tensors& outputs, const Tensors& inputs, uint64_t since) {
  std::vector<GradEdge> ends;
  std::unordered_set<const GradNode*> seen;
  std::vector<Ref<GradNode>> open;
  const auto visit = [&](const GradEdge& e) {
    if (e.empty()) return;
    if (e.node && e.node->sequence() > since) {
      if (seen.insert(e.node.get()).second) open.push_back(e.node);
      return;
    }
    const bool is_input =
        std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& t) { return edge_of(t) == e; });
    if (!is_input && std::find(ends.begin(), ends.end(), e) == ends.end()) ends.push_back(e);
  };
  for (const Tensor& t : outputs) visit(edge_of(t));
  while (!open.empty()) {
    const Ref<GradNode> node = std::move(open.back());
    open.pop_back();
    for (const GradEdge& e : node->edges()) visit(e);
  }
  return ends;
}

/// Each input that a gradient is wanted for as an end of the tape: leaves are that already.
Tensors fresh(const Tensors& inputs, bool with_history) {
  Tensors own = inputs;
  for (Tensor& t : own)
    if (!t.is_leaf()) t = with_history ? alias(t) : t.detach().set_requires_grad();
  return own;
}

class CheckpointNode final : public GradNode {
 public:
  CheckpointNode(Function function, const Tensors& inputs, const std::vector<GradEdge>& others,
                 std::vector<Draw> draws)
      : function_(std::move(function)), draws_(std::move(draws)) {
    for (const Tensor& t : inputs) {
      inputs_.emplace_back(t);
      GradEdge e = edge_of(t);
      // The gradient of a leaf that is given twice is one.
      if (e.leaf.defined() && std::find(edges_.begin(), edges_.end(), e) != edges_.end()) e = {};
      edges_.push_back(std::move(e));
    }
    for (const GradEdge& e : others) {
      edges_.push_back(e);
      leaves_.emplace_back(e.leaf);
    }
  }

  const char* name() const override { return "checkpoint"; }

 private:
  Tensors vjp(const Tensors& cotangents) override {
    const bool again = grad_enabled();
    const GradMode recording(true);
    Tensors inputs;
    for (const SavedTensor& s : inputs_) inputs.push_back(s.unpack(name()));
    for (const SavedTensor& s : leaves_) s.unpack(name());
    const Tensors own = fresh(inputs, again);
    const uint64_t since = last_sequence();
    Tensors made;
    {
      const DrawScope scope(draws_, DrawScope::Kind::replay);
      const Autocast as_before(autocast_);
      const OwnCasts casts;
      made = function_(own);
    }
    check(made.size() == outputs(), "checkpoint: the function gave {} results, then {}", outputs(),
          made.size());
    std::vector<GradEdge> ends = edges_;
    for (size_t i = 0; i < own.size(); ++i)
      if (ends[i].node) ends[i] = edge_of(own[i]);
    for (const GradEdge& e : ends_of(made, own, since))
      check(std::find(ends.begin(), ends.end(), e) != ends.end(),
            "checkpoint: the function read other tensors when it ran again");
    Tensors roots;
    Tensors given;
    for (size_t i = 0; i < made.size(); ++i) {
      if (!cotangents[i].defined() || !made[i].requires_grad()) continue;
      roots.push_back(made[i]);
      given.push_back(cotangents[i]);
    }
    return grad_until(roots, ends, given, {.retain_graph = again, .create_graph = again}, since);
  }

  bool drop_saved() override {
    const auto function = std::exchange(function_, nullptr);
    const auto inputs = std::exchange(inputs_, {});
    const auto leaves = std::exchange(leaves_, {});
    const auto draws = std::exchange(draws_, {});
    return true;
  }

  Function function_;
  std::vector<SavedTensor> inputs_;
  std::vector<SavedTensor> leaves_;  // others that the function reads, to see that they stay
  std::vector<Draw> draws_;
  AutocastMode autocast_ = autocast_mode();
};

}  // namespace

Tensors checkpoint(const Function& function, const Tensors& inputs) {
  if (!grad_enabled()) return function(inputs);
  const Tensors own = fresh(inputs, false);
  const uint64_t since = last_sequence();
  std::vector<Draw> draws;
  Tensors outputs;
  {
    const DrawScope scope(draws, DrawScope::Kind::record);
    const OwnCasts casts;
    outputs = function(own);
  }
  if (!grad_wanted(outputs)) return outputs;
  const auto node =
      make_ref<CheckpointNode>(function, inputs, ends_of(outputs, own, since), std::move(draws));
  Tensors made;
  for (Tensor& t : outputs) {
    made.push_back(without_history(t));
    if (t.requires_grad()) t = made.back();
  }
  node->produce(made);
  return outputs;
}

Values checkpoint(const std::function<Values(const Values& inputs)>& function,
                  const Values& inputs) {
  // The second run must give what the first did.
  const auto structure = std::make_shared<Values>();
  const Function flat = [function, like = structure_of(inputs), structure](const Tensors& in) {
    const Values made = function(unflatten(like, in));
    if (structure->is_nothing()) *structure = structure_of(made);
    check(same_structure(*structure, made), "checkpoint: the function gave {}, then {}", *structure,
          made);
    return flatten(made);
  };
  const Tensors results = checkpoint(flat, flatten(inputs));
  return unflatten(*structure, results);
}

Tensor checkpoint(const std::function<Tensor(const Tensor& input)>& function, const Tensor& input) {
  return checkpoint([function](const Tensors& in) -> Tensors { return {function(in[0])}; },
                    Tensors{input})[0];
}

}  // namespace mica

#include "mica/graph/backward_plan.h"

#include <algorithm>

#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"

namespace mica {
namespace {

/// A call of a compiled function on the tape.
class CompiledNode final : public GradNode {
 public:
  CompiledNode(std::shared_ptr<BackwardPlan> plan, const Tensors& kept,
               std::span<const Tensor> arguments)
      : plan_(std::move(plan)) {
    for (const Tensor& t : kept) kept_.emplace_back(t);
    for (const Value& v : plan_->plan().captured().graph.values)
      if (v.kind == Value::Kind::external) read_.emplace_back(v.tensor);
    for (const CapturedBackward::End& end : plan_->ends())
      edges_.push_back(
          edge_of(end.argument >= 0 ? arguments[static_cast<size_t>(end.argument)] : end.leaf));
  }

  const char* name() const override { return "compiled function"; }

 private:
  Tensors vjp(const Tensors& cotangents) override {
    for (size_t i = 0; i < cotangents.size(); ++i)
      if (cotangents[i].defined() && plan_->errors()[i]) std::rethrow_exception(plan_->errors()[i]);
    check<Unsupported>(!grad_enabled(),
                       "compile: the gradient of a compiled function cannot be differentiated "
                       "again; compile the function that takes both gradients");
    for (const SavedTensor& s : read_) s.unpack(name());
    Tensors inputs;
    for (size_t i = 0; i < cotangents.size(); ++i) {
      const TensorSpec& spec = out_specs_[static_cast<int>(i)];
      inputs.push_back(cotangents[i].defined() ? cast(cotangents[i], spec.dtype)
                                               : zeros(spec.shape, {spec.dtype, spec.device}));
    }
    for (const SavedTensor& s : kept_) inputs.push_back(s.unpack(name()));
    Tensors gradients = plan_->run(inputs);
    // Where nothing came from a result that leads there, there is no gradient, not one of zeros.
    for (size_t e = 0; e < gradients.size(); ++e) {
      const std::vector<bool>& from = plan_->ends()[e].from;
      bool reached = false;
      for (size_t i = 0; i < cotangents.size(); ++i)
        reached = reached || (from[i] && cotangents[i].defined());
      if (!reached) gradients[e] = {};
    }
    return gradients;
  }

  bool drop_saved() override {
    const auto kept = std::exchange(kept_, {});
    return true;
  }

  std::shared_ptr<BackwardPlan> plan_;
  std::vector<SavedTensor> kept_;
  std::vector<SavedTensor> read_;  // parameters and the like, to see that they stay
};

}  // namespace

BackwardPlan::BackwardPlan(std::shared_ptr<CapturedBackward> captured)
    : captured_(std::move(captured)), plan_(std::move(captured_->captured)) {}

void BackwardPlan::attach(Tensors& results, const Tensors& kept,
                          std::span<const Tensor> arguments) {
  const auto node = make_ref<CompiledNode>(shared_from_this(), kept, arguments);
  Tensors made;
  for (const size_t i : captured_->of) {
    results[i] = without_history(results[i]);
    made.push_back(results[i]);
  }
  node->produce(made);
}

Tensors BackwardPlan::run(const Tensors& inputs) {
  check(
      plan_.captured().guards.hold(),
      "compile: a parameter of a compiled function was moved, frozen or given other hooks between "
      "its call and backward");
  const Tensors made = plan_.run(inputs);
  Tensors gradients;
  for (const CapturedBackward::End& end : ends())
    gradients.push_back(end.result < 0 ? Tensor() : made[static_cast<size_t>(end.result)]);
  return gradients;
}

}  // namespace mica

#include "mica/autograd/function.h"

#include <algorithm>

#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/ops/fill/fill.h"

namespace mica {

/// A call of a function with a gradient of its own.
class FunctionNode final : public GradNode {
 public:
  FunctionNode(std::string name, const Tensors& inputs, FunctionContext context,
               FunctionBackward backward)
      : name_(std::move(name)), context_(std::move(context)), backward_(std::move(backward)) {
    for (const Tensor& t : inputs) {
      edges_.push_back(edge_of(t));
      in_specs_.push_back(t.defined() ? t.spec() : TensorSpec{});
    }
    context_.node_ = this;
  }

  const char* name() const override { return name_.c_str(); }

  void save(const Tensors& tensors, const Tensors& outputs) {
    for (const Tensor& t : tensors) {
      // Of an output only the values: the node must not own itself.
      const auto at = std::find_if(outputs.begin(), outputs.end(),
                                   [&](const Tensor& y) { return y.impl() == t.impl(); });
      const bool is_output = t.defined() && at != outputs.end();
      saved_.push_back({SavedTensor(is_output ? without_history(t) : t),
                        is_output ? static_cast<int>(at - outputs.begin()) : -1});
    }
  }

  Tensors saved() {
    Tensors tensors;
    for (const Saved& s : saved_) {
      const Tensor& t = s.tensor.unpack(name());
      tensors.push_back(s.output < 0 ? t : as_output(t, s.output));
    }
    return tensors;
  }

 private:
  struct Saved {
    SavedTensor tensor;
    int output;  // which output of this node it is; -1 for none
  };

  Tensors vjp(const Tensors& cotangents) override {
    Tensors given = cotangents;
    for (size_t i = 0; i < given.size(); ++i)
      if (!given[i].defined())
        given[i] = zeros(out_specs_[i].shape, {out_specs_[i].dtype, out_specs_[i].device});
    Tensors grads = backward_(context_, given);
    check(grads.size() == edges_.size(), "{}: its backward gave {} gradients for {} inputs", name_,
          grads.size(), edges_.size());
    const bool again =
        std::any_of(given.begin(), given.end(), [](const Tensor& t) { return t.requires_grad(); });
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined() || edges_[i].empty()) continue;
      check<ShapeError>(grads[i].shape() == in_specs_[i].shape,
                        "{}: the gradient of input {} must have its shape {}, got {}", name_, i,
                        in_specs_[i].shape, grads[i].shape());
      check<DTypeError>(grads[i].dtype() == in_specs_[i].dtype,
                        "{}: the gradient of input {} must be {} as it is, got {}", name_, i,
                        in_specs_[i].dtype, grads[i].dtype());
      // A gradient is linear in the cotangents: one without history was computed past the tape.
      check<Unsupported>(!again || !grad_enabled() || grads[i].requires_grad(),
                         "{}: its backward is not made of ops, so it cannot be differentiated "
                         "again (where a gradient is zero, return an undefined tensor)",
                         name_);
    }
    return grads;
  }

  bool drop_saved() override {
    const auto saved = std::exchange(saved_, {});
    return true;
  }

  std::string name_;
  FunctionContext context_;
  FunctionBackward backward_;
  std::vector<Saved> saved_;
  std::vector<TensorSpec> in_specs_;
};

void FunctionContext::save(const Tensors& tensors) { to_save_ = tensors; }

void FunctionContext::check_type(const std::type_info& type) const {
  if (type_ == nullptr || *type_ != type)
    throw Error("FunctionContext::get: no value of this type was set");
}

Tensors FunctionContext::saved() const {
  check(node_ != nullptr, "saved: nothing is saved before forward has ended");
  return node_->saved();
}

Tensors call_function(const std::string& name, const Tensors& inputs,
                      const std::function<Tensors(FunctionContext& c)>& forward,
                      const FunctionBackward& backward) {
  const bool recorded = grad_wanted(inputs);
  FunctionContext context;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (recorded && inputs[i].requires_grad()) context.needed_.insert(static_cast<int>(i));
  Tensors outputs;
  {
    const NoGrad guard;
    outputs = forward(context);
  }
  if (!recorded) return outputs;
  const Tensors to_save = std::exchange(context.to_save_, {});
  const auto node = make_ref<FunctionNode>(name, inputs, std::move(context), backward);
  node->save(to_save, outputs);
  // Fresh tensors: an input may be returned as it is.
  for (Tensor& t : outputs) {
    check(t.defined(), "{}: its forward returned an undefined tensor", name);
    t = without_history(t);
  }
  node->produce(outputs);
  return outputs;
}

CustomFunction::CustomFunction(
    std::string name, std::function<Tensors(FunctionContext&, const Tensors& inputs)> forward,
    FunctionBackward backward)
    : name_(std::move(name)), forward_(std::move(forward)), backward_(std::move(backward)) {}

Tensors CustomFunction::operator()(const Tensors& inputs) const {
  return call_function(
      name_, inputs, [&](FunctionContext& c) { return forward_(c, inputs); }, backward_);
}

}  // namespace mica

#pragma once

#include <functional>

#include "mica/core/tensor.h"

namespace mica {

/// Whether ops are recorded for backward; per thread, on by default.
bool grad_enabled();
void set_grad_enabled(bool on);

/// Records, or does not, while it lives.
class GradMode {
 public:
  explicit GradMode(bool on) : before_(grad_enabled()) { set_grad_enabled(on); }
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

/// Records nothing while it lives: `NoGrad guard;`.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

struct BackwardOptions {
  bool retain_graph = false;  ///< keep saved tensors, so that backward can run again
  bool create_graph = false;  ///< record the gradients' own history, for second order
};

/// Accumulates the gradients of `outputs` into the `.grad` of the leaves. An undefined cotangent
/// stands for one, and then the output must have one element.
void backward(const Tensors& outputs, const Tensors& cotangents, BackwardOptions options = {});

/// Gradients of `outputs` for `inputs`, without touching any `.grad`. Undefined for an input the
/// outputs do not depend on.
Tensors grad(const Tensors& outputs, const Tensors& inputs, const Tensors& cotangents = {},
             BackwardOptions options = {});

/// Told of every change of a `.grad` in this thread; graph capture uses it.
class GradWatcher {
 public:
  virtual ~GradWatcher() = default;
  /// `reads`: what happens depends on the gradient that is there (accumulation), not only replaces
  /// it.
  virtual void before_change(const Tensor& leaf, bool reads) = 0;
};
GradWatcher* current_grad_watcher();
GradWatcher* exchange_grad_watcher(GradWatcher* watcher);

}  // namespace mica

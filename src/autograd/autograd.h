#pragma once

#include <functional>
#include <utility>

#include "mica/core/tensor.h"

// Threads. Any number of them may compute and differentiate at once, on tensors of their own or on
// shared ones that nobody writes to: reading a parameter, recording ops on it and grad() for it are
// reads; backward(), which adds to the `.grad` of leaves, a hook that is added and an in-place
// update are writes. A graph may be recorded in one thread and differentiated in another, but not
// in two at the same time.
//
// Per thread (thread_local): grad mode, anomaly mode, the recorder of a capture and the watcher of
// `.grad`, the log of random numbers of a checkpoint, nodes that wait to be freed.
// Per process, guarded: kernel caches and settings (set_num_threads, force_kernel, deterministic,
// …), allocators, the generators of random numbers (each draw is whole; which thread draws first is
// not defined), sequence numbers of nodes, arenas of compiled functions.

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

/// Gradients of `outputs` for `inputs`, without touching any `.grad`. Each input must require a
/// gradient. Where the outputs do not depend on one, its gradient is undefined (a zero that nobody
/// computed), not an error: `defined()` tells.
Tensors grad(const Tensors& outputs, const Tensors& inputs, const Tensors& cotangents = {},
             BackwardOptions options = {});

/// Takes a hook away again. Dropping the handle leaves the hook where it is.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// Does nothing when the hook or what it belongs to is gone.
  void remove() {
    if (const auto remove = std::exchange(remove_, {})) remove();
  }

 private:
  std::function<void()> remove_;
};

/// Gets a tensor's gradient and returns what takes its place; undefined leaves it as it is.
using GradHook = std::function<Tensor(const Tensor& gradient)>;
/// Calls `hook` in each backward pass that reaches `tensor`, a leaf or a result, once its whole
/// gradient is there: before the op that made it is differentiated, before a leaf's `.grad` and the
/// results of grad() are written. Several hooks run in the order they were added, each with what
/// the one before returned. While a graph is captured they run at capture, on traced tensors.
/// A hook that holds its own leaf keeps it alive.
HookHandle add_hook(const Tensor& tensor, GradHook hook);

/// Calls `hook` with the leaf as soon as backward() has added its gradient to `.grad`; other leaves
/// may still be without theirs. grad() does not call it.
HookHandle add_post_accumulate_hook(const Tensor& leaf,
                                    std::function<void(const Tensor& leaf)> hook);

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

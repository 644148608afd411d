#pragma once

#include <functional>
#include <unordered_map>
#include <utility>

#include "mica/autograd/autograd.h"
#include "mica/graph/graph.h"
#include "mica/op/dispatch.h"

namespace mica {

using TensorFunction = std::function<Tensors(std::span<const Tensor>)>;

/// What a capture found on the host and built upon; a replay is right only while it still holds.
struct Guards {
  struct Grad {
    Tensor leaf;
    Ref<Storage>
        grad;  ///< of its `.grad` when backward first added to it; null when there was none
    bool holds() const;
  };
  struct Leaf {
    Tensor tensor;
    Ref<Storage> storage;  ///< Module::to gives a tensor other memory
    bool requires_grad;
    bool holds() const;
  };
  struct Flag {
    std::shared_ptr<const bool> flag;
    bool value;
    bool holds() const { return *flag == value; }
  };

  std::vector<Grad> grads;
  std::vector<Leaf> leaves;
  std::vector<Flag> flags;

  bool hold() const;
  /// What no longer holds, in words.
  std::vector<std::string> broken() const;
};

/// The `.grad`s of leaves as they were. Puts them back when it ends, unless they are let go of.
class GradsBefore {
 public:
  GradsBefore() = default;
  ~GradsBefore() {
    for (const auto& [leaf, grad] : grads_) leaf.set_grad(grad);
  }
  GradsBefore(GradsBefore&& other) noexcept : grads_(std::exchange(other.grads_, {})) {}
  GradsBefore& operator=(GradsBefore&& other) noexcept {
    std::swap(grads_, other.grads_);
    return *this;
  }
  void add(const Tensor& leaf) { grads_.emplace_back(leaf, leaf.grad()); }
  const std::vector<std::pair<Tensor, Tensor>>& grads() const { return grads_; }
  void let_go() { grads_.clear(); }

 private:
  std::vector<std::pair<Tensor, Tensor>> grads_;
};

/// A function's graph and what surrounds it.
struct Captured {
  Graph graph;
  size_t results = 0;           ///< the first outputs are what the function returned
  std::vector<Tensor> grad_of;  ///< the others go to these leaves' `.grad`
  Guards guards;
  GradsBefore grads_before;     ///< a function's first run decides what becomes of them
  std::vector<Tensor> written;  ///< external tensors the graph writes to
  Device device;
  /// The most bytes of arguments and results that eager execution holds at once, without what
  /// kernels work in.
  size_t eager_bytes = 0;
};

/// Runs `function` once on tensors without values and records what it does. Nothing is computed. If
/// it throws, gradients are as they were before.
Captured capture(const TensorFunction& function, std::span<const TensorSpec> inputs);

}  // namespace mica

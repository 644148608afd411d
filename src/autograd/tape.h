#pragma once

#include <vector>

#include "mica/autograd/autograd.h"
#include "mica/core/inline_vector.h"
#include "mica/op/dispatch.h"

namespace mica {

/// The hooks of one tensor, in the order they were added. Those of a leaf belong to it, those of a
/// result to the node that made it: the tensor itself may be gone when backward comes.
struct GradHooks {
  struct Replace {
    uint64_t id;
    GradHook call;
  };
  struct After {
    uint64_t id;
    std::function<void(const Tensor&)> call;
  };
  std::vector<Replace> replace;
  std::vector<After> after;

  /// What the hooks make of a gradient.
  Tensor apply(const Tensor& gradient) const;
};

/// Where the gradient of a tensor flows: into the op that produced it, or into a leaf.
struct GradEdge {
  Ref<GradNode> node;
  int output = 0;
  Tensor leaf;
  bool empty() const { return !node && !leaf.defined(); }
  bool operator==(const GradEdge& o) const {
    return node == o.node && output == o.output && leaf.impl() == o.leaf.impl();
  }
};

/// What makes a view of another tensor. A write through either, where a gradient flows, gives both
/// another history: that of a view is made anew when it is asked for.
struct GradView {
  Tensor of;
  const OpDef* op;
  AnyParams params;
  uint32_t seen;  ///< Storage::histories() when its history was made
};

/// A tensor kept for backward.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& t)
      : tensor_(t), version_(t.defined() ? t.impl()->storage->version() : 0) {}
  /// Raises, in the name of `who`, when the tensor was written to since.
  const Tensor& unpack(const char* who) const;
  bool defined() const { return tensor_.defined(); }

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
};

/// One recorded call. It points to the nodes its inputs came from; nothing points forward.
class GradNode : public RefCounted {
 public:
  GradNode();
  ~GradNode() override;

  virtual const char* name() const = 0;
  /// Consumers of this node's outputs have higher numbers.
  uint64_t sequence() const { return sequence_; }
  const std::vector<GradEdge>& edges() const { return edges_; }
  size_t outputs() const { return static_cast<size_t>(out_specs_.size()); }

  /// One gradient per edge for one cotangent per output. Raises if a saved tensor was modified
  /// since, or freed by an earlier backward.
  Tensors apply(const Tensors& cotangents);
  void release_saved();
  /// True once a backward pass went through.
  bool used() const { return used_; }

  /// The hooks of an output; null where it has none.
  const GradHooks* hooks(size_t output) const {
    return output < hooks_.size() ? hooks_[output].get() : nullptr;
  }
  const std::shared_ptr<GradHooks>& make_hooks(size_t output);

  /// Makes floating tensors this node's outputs, in their order.
  void produce(std::span<const Tensor> outputs);
  /// The same values as output i of this node, for gradients of higher order.
  Tensor as_output(const Tensor& saved, int i);

 protected:
  virtual Tensors vjp(const Tensors& cotangents) = 0;
  /// Drops what is saved; true if there was anything.
  virtual bool drop_saved() = 0;

  std::vector<GradEdge> edges_;
  InlineVector<TensorSpec, 1> out_specs_;

 private:
  uint64_t sequence_;
  std::vector<std::shared_ptr<GradHooks>> hooks_;
  bool released_ = false;
  bool used_ = false;
};

/// Where the gradient of `t` flows.
GradEdge edge_of(const Tensor& t);

/// Lets a tensor that is no leaf with a gradient have another history, or none.
void set_history(const Tensor& t, const GradEdge& edge);

/// The same memory without history, as another tensor.
Tensor without_history(const Tensor& t);

/// The same tensor as the output of a node of its own; it must require a gradient.
Tensor alias(const Tensor& t);

/// The number of the node that was recorded last.
uint64_t last_sequence();

/// Gradients that reach `ends` from `outputs`, through nodes recorded after `since` alone. Hooks of
/// the ends do not run: their gradients go on from here.
Tensors grad_until(const Tensors& outputs, const std::vector<GradEdge>& ends,
                   const Tensors& cotangents, BackwardOptions options, uint64_t since);

/// "sqrt ← mul ← leaf f32[3]": a call and a few of those that led to it.
std::string history_of(const GradNode& node);

/// True while a leaf has hooks.
bool any_leaf_hooks();
/// A number that changes with the hooks of a leaf; 0 where it has none.
uint64_t hooks_stamp(const Tensor& leaf);

/// The `.grad` of a tensor as it is; nobody is told. One that is used up is a tensor without
/// memory.
Tensor peek_grad(const Tensor& t);
void poke_grad(const Tensor& t, const Tensor& grad);
/// A compiled function made this leaf's gradient and used it up in an update, without keeping it:
/// whoever reads it before it is set again is told so.
void use_up_grad(const Tensor& leaf);
bool grad_is_used_up(const Tensor& t);

/// Overwrites `destination` with `value`, of its shape and dtype, and lets it have the history of
/// `value` instead of its own. Where it is a view, the tensor that it shows a part of has that
/// history there, and its own elsewhere; all other views follow. Implemented in writes.cpp.
void write_recorded(const Tensor& destination, const Tensor& value);

/// Backward does not enter nodes of this thread up to this number: a graph that is captured has
/// none of the values of a call that was recorded before. Returns the number before.
uint64_t exchange_history_start(uint64_t sequence);

}  // namespace mica

#pragma once

#include <vector>

#include "mica/op/dispatch.h"

namespace mica {

/// Where the gradient of a tensor flows: into the op that produced it, or into a leaf.
struct GradEdge {
  Ref<GradNode> node;
  int output = 0;
  Tensor leaf;
  bool empty() const { return !node && !leaf.defined(); }
};

/// One recorded call. It points to the nodes its inputs came from; nothing points forward.
class GradNode : public RefCounted {
 public:
  GradNode(const OpDef& op, ParamsRef params) : op_(&op), params_(params) {}
  ~GradNode() override;

  const OpDef& op() const { return *op_; }
  /// Consumers of this node's outputs have higher numbers.
  uint64_t sequence() const { return sequence_; }
  const std::vector<GradEdge>& edges() const { return edges_; }
  size_t outputs() const { return out_specs_.size(); }

  /// Applies the op's vjp to one cotangent per output. Raises if a saved tensor was modified since,
  /// or freed by an earlier backward.
  Tensors apply(const Tensors& cotangents);
  void release_saved();
  /// True once a backward pass went through.
  bool used() const { return used_; }

 private:
  friend void record_on_tape(const OpDef&, ParamsRef, std::span<const Tensor>, const Outputs&);
  struct Saved {
    Tensor tensor;
    uint32_t version = 0;
  };
  Tensor unpack(const Saved& saved) const;

  const OpDef* op_;
  AnyParams params_;
  uint64_t sequence_ = 0;
  std::vector<GradEdge> edges_;
  std::vector<Saved> in_;
  std::vector<Saved> out_;
  std::vector<TensorSpec> in_specs_;
  std::vector<TensorSpec> out_specs_;
  bool released_ = false;
  bool used_ = false;
};

/// Where the gradient of `t` flows.
GradEdge edge_of(const Tensor& t);

}  // namespace mica

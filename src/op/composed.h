#pragma once

#include "mica/op/select.h"

namespace mica {

/// Calls of other ops, one after the other: the state of a kernel that computes an op as it is
/// defined. Values are the inputs of the op's call, its outputs, and temporaries in the workspace;
/// an elementwise call may write over its operand.
class ComposedState : public KernelState {
 public:
  explicit ComposedState(const Specs& specs);

  int in(int i) const { return i; }
  int out(int i) const { return inputs_ + i; }
  /// Of this shape, in the format of `like`.
  int temporary(const Shape& shape, DType dtype, const TensorSpec& like);
  /// The memory of a value, seen with other strides.
  int view(int value, const TensorSpec& spec);
  const TensorSpec& spec(int value) const { return values_[static_cast<size_t>(value)].spec; }

  /// Chooses the kernel of a call; copies to the layouts it wants go before it.
  template <class P>
  void add(const OpDef& op, const P& params, const std::vector<int>& in,
           const std::vector<int>& out) {
    add_call(op, AnyParams(ParamsRef::of(params)), in, out);
  }
  void add(const OpDef& op, const AnyParams& params, const std::vector<int>& in,
           const std::vector<int>& out) {
    add_call(op, params, in, out);
  }

  void run(const Call& call) const;

 private:
  static constexpr int kNoBase = -1;
  struct Value {
    TensorSpec spec;
    size_t offset = 0;   ///< of a temporary
    int base = kNoBase;  ///< of a view: the value whose memory it shows, from its start on
  };
  struct Step {
    AnyParams params;
    std::shared_ptr<const Prepared> prepared;
    std::vector<int> in, out;
  };

  int add_temporary(const TensorSpec& spec);
  void add_call(const OpDef& op, const AnyParams& params, std::vector<int> in,
                const std::vector<int>& out);
  Arg arg(int value, const Call& call) const;

  std::vector<Value> values_;
  std::vector<Step> steps_;
  int inputs_;
  int outputs_;
  size_t temporary_bytes_ = 0;
  size_t inner_bytes_ = 0;  ///< the largest workspace of a step
};

}  // namespace mica

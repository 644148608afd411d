#pragma once

#include <initializer_list>
#include <span>

#include "mica/op/op_def.h"

namespace mica {

/// The outputs of a call.
using Outputs = InlineVector<Tensor, 4>;

/// The one way an operator is called. Infers the outputs, then either runs a kernel now or records
/// a node of the graph being captured, and records the call on the tape if a gradient is wanted.
Outputs dispatch(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs);

template <class P>
Outputs dispatch(const OpDef& op, const P& params, std::initializer_list<Tensor> inputs) {
  return dispatch(op, ParamsRef::of(params), std::span(inputs.begin(), inputs.size()));
}
template <class P>
Outputs dispatch(const OpDef& op, const P& params, const Tensors& inputs) {
  return dispatch(op, ParamsRef::of(params), std::span<const Tensor>(inputs));
}

/// Turns dispatched ops into nodes of a graph instead of running them. One per thread at a time.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual Outputs record(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                         std::span<const TensorSpec> out) = 0;
  /// The code being recorded read a flag of the host (training or evaluation): what is recorded is
  /// right only while the flag stays.
  virtual void depends_on(const std::shared_ptr<const bool>& flag) = 0;
};
Recorder* current_recorder();
/// Installs a recorder for this thread and returns the one before.
Recorder* exchange_recorder(Recorder* recorder);

/// Autograd's side of dispatch; implemented in autograd/tape.cpp.
bool grad_wanted(std::span<const Tensor> inputs);
void record_on_tape(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                    const Outputs& outputs);
/// Keeps beside a view what it is a view of, where gradients may come to flow.
void note_view(const OpDef& op, ParamsRef params, const Tensor& of, const Tensor& view);

/// Anomaly mode's side of dispatch; implemented in autograd/anomaly.cpp. Whether the mode is on in
/// this thread; whether a call's inputs and parameters are finite; raises when its results are not.
bool detect_anomaly();
bool finite_call(ParamsRef params, std::span<const Tensor> inputs);
void check_call(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs);

/// The op that copies an input into the layout a kernel wants, and its parameters for that layout;
/// implemented in ops/copy.
const OpDef& layout_copy_op();
AnyParams layout_copy_params(const TensorSpec& wanted);

}  // namespace mica

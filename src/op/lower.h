#pragma once

#include <utility>
#include <vector>

#include "mica/op/dispatch.h"
#include "mica/op/select.h"

namespace mica {

/// One call that has its kernel, and whose inputs lie as that wants them.
template <class Value>
struct LoweredCall {
  const OpDef& op;
  const AnyParams& params;
  std::shared_ptr<const Prepared> prepared;
  std::vector<Value> in;
  std::vector<Value> out;
  bool is_copy = false;  ///< into the layout that the call after it wants
};

/// "Select, copy, run", for everybody who runs calls: gives a call whose kernel is selected to
/// `emit(LoweredCall)`, after the calls that copy inputs into the layouts it wants. `fresh(spec)`
/// makes a value for a copy; what a value is (a tensor, a number in a plan) is the caller's affair.
template <class Value, class Fresh, class Emit>
void lower_call(const OpDef& op, const AnyParams& params, std::shared_ptr<const Prepared> prepared,
                std::span<const TensorSpec> specs, Device device, std::vector<Value> in,
                std::vector<Value> out, Fresh&& fresh, Emit&& emit, bool is_copy = false) {
  for (size_t i = 0; i < in.size() && prepared->needs_copies(); ++i) {
    const TensorSpec wanted = wanted_spec(*prepared, static_cast<int>(i), specs[i]);
    if (wanted.strides == specs[i].strides) continue;
    const AnyParams copy = layout_copy_params(wanted);
    const std::span<const TensorSpec> from = specs.subspan(i, 1);
    const Value to = fresh(wanted);
    lower_call(layout_copy_op(), copy,
               select(layout_copy_op(), copy.ref(), {from, {&wanted, 1}}, device), from, device,
               std::vector<Value>{in[i]}, std::vector<Value>{to}, fresh, emit, true);
    in[i] = to;
  }
  emit(LoweredCall<Value>{op, params, std::move(prepared), std::move(in), std::move(out), is_copy});
}

}  // namespace mica

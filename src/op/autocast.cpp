#include "mica/op/autocast.h"

#include <algorithm>
#include <unordered_map>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"

namespace mica {
namespace {

/// A parameter in the low dtype.
struct Cast {
  Tensor of;
  uint32_t version;
  bool recorded;  ///< made while calls were recorded for backward
  Tensor low;
};
using Casts = std::unordered_map<const TensorImpl*, Cast>;

struct State {
  AutocastMode mode;
  Precision others = Precision::any;  ///< of ops that have none of their own
  int regions = 0;
  Casts casts;
};
thread_local State t_state;
thread_local constinit bool t_on = false;  // every call asks

void set_mode(const AutocastMode& mode) {
  t_state.mode = mode;
  t_on = mode.on();
}

bool is_float(const Tensor& t) {
  return t.defined() && is_floating(t.dtype()) && size_of(t.dtype()) > 1;
}

/// In which dtype a call computes; none where its inputs stay.
std::optional<DType> dtype_for(const OpDef& op, std::span<const Tensor> inputs) {
  const Precision precision = op.precision == Precision::any ? t_state.others : op.precision;
  if (precision == Precision::any || op.mutates || op.view) return std::nullopt;
  const auto first = std::find_if(inputs.begin(), inputs.end(), is_float);
  if (first == inputs.end()) return std::nullopt;
  const auto low = t_state.mode.low[static_cast<size_t>(first->device().kind)];
  if (!low) return std::nullopt;
  DType widest = first->dtype();
  for (const Tensor& t : inputs)
    if (is_float(t)) widest = promote(widest, t.dtype());
  if (widest == DType::f64 && precision != Precision::widest) return std::nullopt;
  switch (precision) {
    case Precision::low:
      return low;
    case Precision::f32:
      return DType::f32;
    default:
      return widest;
  }
}

Tensor cast_apart(const Tensor& x, DType dtype) {
  const Autocast off{AutocastMode{}};
  return cast(x, dtype);
}

Tensor cast_for_call(const Tensor& x, DType dtype) {
  const bool recorded = grad_wanted({&x, 1});
  if (!x.requires_grad() || !x.is_leaf() || x.is_traced()) return cast_apart(x, dtype);
  const uint32_t version = x.storage()->version();
  Cast& kept = t_state.casts[x.impl()];
  if (!kept.low.defined() || kept.version != version || kept.recorded != recorded ||
      kept.low.dtype() != dtype) {
    const Tensor low = cast_apart(x, dtype);
    t_state.casts[x.impl()] = {x, version, recorded, low};
    return low;
  }
  return kept.low;
}

}  // namespace

bool AutocastMode::on() const {
  return std::any_of(low.begin(), low.end(), [](const auto& dtype) { return dtype.has_value(); });
}

const AutocastMode& autocast_mode() { return t_state.mode; }

AutocastMode with_low(AutocastMode mode, DeviceKind device, std::optional<DType> low) {
  check<DTypeError>(!low || *low == DType::f16 || *low == DType::bf16,
                    "autocast: expected f16 or bf16, got {}", low.value_or(DType::f32));
  mode.low[static_cast<size_t>(device)] = low;
  return mode;
}

AutocastMode enter_autocast(const AutocastMode& mode) {
  const AutocastMode before = t_state.mode;
  ++t_state.regions;
  set_mode(mode);
  return before;
}

void leave_autocast(const AutocastMode& before) {
  set_mode(before);
  if (--t_state.regions == 0) t_state.casts.clear();
}

DType default_low(DeviceKind device) {
  return device == DeviceKind::cuda ? DType::f16 : DType::bf16;
}

Autocast::Autocast(DeviceKind device, std::optional<DType> dtype, bool enabled)
    : Autocast(with_low(
          autocast_mode(), device,
          enabled ? std::optional(dtype.value_or(default_low(device))) : std::optional<DType>())) {}
Autocast::Autocast(const AutocastMode& mode) : before_(enter_autocast(mode)) {}
Autocast::~Autocast() { leave_autocast(before_); }

struct OwnCasts::Kept {
  Casts casts;
};
OwnCasts::OwnCasts() : before_(std::make_shared<Kept>(std::exchange(t_state.casts, {}))) {}
OwnCasts::~OwnCasts() { t_state.casts = std::move(before_->casts); }

ComputedIn::ComputedIn(Precision precision) : before_(std::exchange(t_state.others, precision)) {}
ComputedIn::~ComputedIn() { t_state.others = before_; }

bool autocasts() { return t_on; }

std::optional<Tensors> autocast_inputs(const OpDef& op, std::span<const Tensor> inputs) {
  const auto dtype = dtype_for(op, inputs);
  const auto stays = [&](const Tensor& t) { return !is_float(t) || t.dtype() == *dtype; };
  if (!dtype || std::all_of(inputs.begin(), inputs.end(), stays)) return std::nullopt;
  Tensors cast(inputs.begin(), inputs.end());
  for (Tensor& t : cast)
    if (!stays(t)) t = cast_for_call(t, *dtype);
  return cast;
}

}  // namespace mica

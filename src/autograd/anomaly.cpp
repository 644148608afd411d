#include "mica/autograd/anomaly.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "mica/autograd/tape.h"
#include "mica/core/dtype_switch.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

thread_local bool t_detect_anomaly = false;

std::string not_finite(const Tensor& t) {
  if (!t.defined() || t.is_traced()) return "";
  return mica::not_finite(t.data(), t.spec());
}

bool all_finite(std::span<const Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const Tensor& t) { return not_finite(t).empty(); });
}

/// "; input 0 (f32[3]) came from mul ← leaf f32[3]" for each input with a history.
std::string origins(std::span<const Tensor> inputs) {
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const GradEdge e = edge_of(inputs[i]); e.node)
      text += fmt::format("; input {} ({}) came from {}", i, inputs[i].spec(), history_of(*e.node));
  return text;
}

}  // namespace

bool detect_anomaly() { return t_detect_anomaly; }
void set_detect_anomaly(bool on) { t_detect_anomaly = on; }

/// A real number, or the two parts of a complex one.
template <class T>
auto parts_of(T x) {
  if constexpr (kIsComplex<T>) {
    return std::array<double, 2>{x.re, x.im};
  } else {
    return std::array<double, 1>{static_cast<double>(x)};
  }
}

std::string not_finite(const void* data, const TensorSpec& spec) {
  const int64_t n = spec.numel();
  if (!data || n == 0 || !kFloatDTypes.with_complex().contains(spec.dtype)) return "";
  std::vector<std::byte> copy;
  if (!spec.device.is_cpu()) {
    int64_t last = 0;
    for (int i = 0; i < spec.rank(); ++i) last += (spec.shape[i] - 1) * spec.strides[i];
    copy.resize(static_cast<size_t>(last + 1) * size_of(spec.dtype));
    runtime(spec.device).copy_to_host(copy.data(), data, copy.size(), spec.device.index);
    data = copy.data();
  }
  const auto search = [&]<class T>() -> std::string {
    Dims index = Dims::filled(spec.rank(), 0);
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = 0;
      for (int axis = 0; axis < spec.rank(); ++axis) at += index[axis] * spec.strides[axis];
      for (const double value : parts_of(static_cast<const T*>(data)[at])) {
        if (std::isnan(value)) return fmt::format("nan at {}", index);
        if (std::isinf(value)) return fmt::format("{} at {}", value, index);
      }
      for (int axis = spec.rank() - 1; axis >= 0 && ++index[axis] == spec.shape[axis]; --axis)
        index[axis] = 0;
    }
    return "";
  };
  return is_complex(spec.dtype) ? switch_complex(spec.dtype, "anomaly", search)
                                : switch_float(spec.dtype, "anomaly", search);
}

bool finite_call(ParamsRef params, std::span<const Tensor> inputs) {
  return !inputs.empty() && params.info->finite(params.data) && all_finite(inputs);
}

void check_call(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs) {
  const int n = static_cast<int>(inputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const std::string found = not_finite(outputs[i]); !found.empty())
      fail("{}: output {} ({}) is {} though its inputs are finite{}", op.name, i, outputs[i].spec(),
           found, origins(inputs));
  for (int i = 0; i < n; ++i) {
    const Tensor& t = inputs[static_cast<size_t>(i)];
    if (!op.writes(params.data, i, n)) continue;
    if (const std::string found = not_finite(t); !found.empty())
      fail("{}: wrote {} to input {} ({}) though its inputs were finite", op.name, found, i,
           t.spec());
  }
}

void check_gradients(const GradNode& node, const Tensors& cotangents, const Tensors& gradients) {
  if (!all_finite(cotangents)) return;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string found = not_finite(gradients[i]);
    if (found.empty()) continue;
    fail(
        "{}: its gradient for input {} ({}) is {} though what came back to it is finite; it was "
        "recorded as {}",
        node.name(), i, gradients[i].spec(), found, history_of(node));
  }
}

}  // namespace mica

#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/fill/fill.h"

namespace mica {
namespace {

using MaybeDType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;

TensorOptions options_of(MaybeDType dtype, MaybeDevice device, TensorOptions defaults = {}) {
  return {dtype.value_or(defaults.dtype), device.value_or(defaults.device)};
}

/// A new tensor, a leaf if a gradient is wanted for it.
Tensor leaf(Tensor t, bool requires_grad) {
  if (requires_grad) t.set_requires_grad();
  return t;
}

// In a captured function memory of its own would be one piece for all runs: there it is a value of
// the graph, which a fill makes.
Tensor empty_value(const Shape& shape, TensorOptions options) {
  return current_recorder() ? zeros(shape, options) : empty(shape, options);
}
Tensor empty_value_like(const Tensor& x) {
  return current_recorder() ? zeros_like(x) : empty_like(x);
}

template <Tensor (*make)(const Shape&, TensorOptions)>
Function filled(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Dims& shape, MaybeDType dtype, MaybeDevice device,
                             bool requires_grad) {
                            return leaf(make(shape, options_of(dtype, device)), requires_grad);
                          },
                          {spread("shape"),
                           kKeywordOnly,
                           {"dtype", kNone},
                           {"device", kNone},
                           {"requires_grad", false}}}},
          .offer = kModule,
          .op = "full"};
}

/// In the memory format of `x` where it stays on its device.
template <Tensor (*like)(const Tensor&), Tensor (*make)(const Shape&, TensorOptions)>
Function filled_like(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{[](const Tensor& x, MaybeDType dtype, MaybeDevice device,
                             bool requires_grad) {
                            const auto o = options_of(dtype, device, {x.dtype(), x.device()});
                            const bool same = o.dtype == x.dtype() && o.device == x.device();
                            return leaf(same ? like(x) : make(x.shape(), o), requires_grad);
                          },
                          {"input",
                           kKeywordOnly,
                           {"dtype", kNone},
                           {"device", kNone},
                           {"requires_grad", false}}}},
          .offer = kModule,
          .op = "full"};
}

Tensor full_of(const Dims& shape, Number value, MaybeDType dtype, MaybeDevice device,
               bool requires_grad) {
  const TensorOptions own{.dtype = value.is_bool() ? DType::boolean : DType::f32};
  return leaf(full(shape, value, options_of(dtype, device, own)), requires_grad);
}

Tensor full_as(const Tensor& x, Number value, MaybeDType dtype, MaybeDevice device,
               bool requires_grad) {
  const TensorOptions o = options_of(dtype, device, {x.dtype(), x.device()});
  const bool same = o.dtype == x.dtype() && o.device == x.device();
  return leaf(same ? full_like(x, value) : full(x.shape(), value, o), requires_grad);
}

/// arange(end), arange(start, end), arange(start, end, step): of int64 if all are integers.
Tensor counted(Number start, std::optional<Number> end, Number step, MaybeDType dtype,
               MaybeDevice device) {
  const bool floats = start.is_floating() || (end && end->is_floating()) || step.is_floating();
  return arange(end ? start : Number(0), end ? *end : start, step,
                options_of(dtype, device, {.dtype = floats ? DType::f32 : DType::i64}));
}

}  // namespace

Functions fill_functions() {
  const Parameter dtype = {"dtype", kNone};
  const Parameter device = {"device", kNone};
  return {
      filled<zeros>("zeros",
                    "A tensor of zeros of this shape, float32 unless dtype says otherwise."),
      filled<ones>("ones", "A tensor of ones of this shape, float32 unless dtype says otherwise."),
      filled<empty_value>(
          "empty",
          "A tensor of this shape, float32 unless dtype says otherwise, whose values are "
          "undefined."),
      filled_like<zeros_like, zeros>(
          "zeros_like",
          "Zeros with input's shape, and its dtype and device unless others are named."),
      filled_like<ones_like, ones>(
          "ones_like",
          "Ones with input's shape, and its dtype and device unless others are named."),
      filled_like<empty_value_like, empty_value>(
          "empty_like",
          "A tensor of undefined values with input's shape, and its "
          "dtype and device unless others are named."),
      {.name = "full",
       .doc =
           "A tensor of this shape with fill_value everywhere: bool for a bool, float32 for other "
           "numbers, unless dtype says otherwise; integers take it truncated.",
       .signatures =
           {{full_of,
             {"shape", "fill_value", kKeywordOnly, dtype, device, {"requires_grad", false}}}},
       .offer = kModule},
      {.name = "full_like",
       .doc = "A tensor with fill_value everywhere and input's shape, and its dtype and device "
              "unless others are named.",
       .signatures =
           {{full_as,
             {"input", "fill_value", kKeywordOnly, dtype, device, {"requires_grad", false}}}},
       .offer = kModule},
      {.name = "arange",
       .doc = "(n): start, start + step, … without end; from 0 if there is one number. int64 if "
              "all numbers are integers, else float32, unless dtype says otherwise.",
       .signatures = {{counted,
                       {"start", {"end", kNone}, {"step", 1}, kKeywordOnly, dtype, device}}},
       .offer = kModule},
      {.name = "linspace",
       .doc = "(steps): numbers at equal distances from start to end, both included; float32 "
              "unless dtype says otherwise.",
       .signatures = {{[](double start, double end, int64_t steps, MaybeDType t, MaybeDevice d) {
                         return linspace(start, end, steps, options_of(t, d));
                       },
                       {"start", "end", "steps", kKeywordOnly, dtype, device}}},
       .offer = kModule},
      {.name = "eye",
       .doc = "(n, m), or (n, n): ones on the main diagonal, else zeros; float32 unless dtype says "
              "otherwise.",
       .signatures = {{[](int64_t n, std::optional<int64_t> m, MaybeDType t, MaybeDevice d) {
                         return eye(n, m.value_or(n), options_of(t, d));
                       },
                       {"n", {"m", kNone}, kKeywordOnly, dtype, device}}},
       .offer = kModule},
  };
}

}  // namespace mica

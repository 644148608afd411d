#pragma once

#include <algorithm>

#include "mica/core/check.h"
#include "mica/core/dtype_switch.h"
#include "mica/op/kernel.h"
#include "mica/runtime/cpu/convert.h"

// What layer_norm and group_norm say of their statistics and parameters.
namespace mica {

/// Statistics are f32 for f16 and bf16.
inline DType statistics_dtype(DType x) { return x == DType::f64 ? DType::f64 : DType::f32; }

/// Parameters are of x's dtype or of the statistics'.
inline void check_parameter(const char* op, const char* what, const TensorSpec& spec, DType x,
                            const Shape& shape) {
  if (!spec.defined) return;
  check<DTypeError>(spec.dtype == x || spec.dtype == statistics_dtype(x),
                    "{}: {} must be {} or {} for an input of {}, got {}", op, what, x,
                    statistics_dtype(x), x, spec.dtype);
  check<ShapeError>(spec.shape == shape, "{}: {} must be {}, got {}", op, what, shape, spec.shape);
}

/// A row-major parameter of n numbers as C, in `space` unless it lies there already.
template <class C>
const C* parameter_as(const Arg& arg, double otherwise, int64_t n, C* space) {
  if (!arg.defined()) {
    std::fill_n(space, n, static_cast<C>(otherwise));
    return space;
  }
  return switch_float(arg.dtype(), "parameter", [&]<class P>() -> const C* {
    if constexpr (std::is_same_v<P, C>) return arg.as<C>();
    load_run(arg.as<P>(), 1, n, space);
    return space;
  });
}

}  // namespace mica

#pragma once

#include <algorithm>
#include <span>

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

/// The inputs of a norm's gradient: dy, x, the weight and statistics.
inline void check_grad_inputs(const char* op, std::span<const TensorSpec> in, const Shape& weight,
                              const Shape& statistics) {
  const TensorSpec& dy = in[0];
  const TensorSpec& x = in[1];
  check<DTypeError>(dy.dtype == x.dtype, "{}: dy must be {} as the input, got {}", op, x.dtype,
                    dy.dtype);
  check<ShapeError>(dy.shape == x.shape, "{}: dy must be {} as the input, got {}", op, x.shape,
                    dy.shape);
  check_parameter(op, "weight", in[2], x.dtype, weight);
  const DType dtype = statistics_dtype(x.dtype);
  for (const TensorSpec& s : in.subspan(3)) {
    check<DTypeError>(s.dtype == dtype, "{}: statistics must be {}, got {}", op, dtype, s.dtype);
    check<ShapeError>(s.shape == statistics, "{}: statistics must be {}, got {}", op, statistics,
                      s.shape);
  }
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

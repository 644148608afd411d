#pragma once

#include "mica/core/check.h"
#include "mica/core/tensor.h"

namespace mica {

/// Calls `f.template operator()<T>()` with the C++ type of a floating dtype: `switch_float(t,
/// "relu",
/// [&]<class T>() { … })`.
template <class F>
decltype(auto) switch_float(DType t, const char* op, F&& f) {
  switch (t) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    default:
      fail<DTypeError>("{}: expected a floating dtype, got {}", op, t);
  }
}

/// The same for every dtype.
template <class F>
decltype(auto) switch_all(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    case DType::boolean:
      break;
  }
  return f.template operator()<bool>();
}

/// The type arithmetic on T happens in.
template <class T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<Half> {
  using type = float;
};
template <>
struct ComputeType<BFloat16> {
  using type = float;
};
template <>
struct ComputeType<bool> {
  using type = int;
};
template <class T>
using Compute = typename ComputeType<T>::type;

}  // namespace mica

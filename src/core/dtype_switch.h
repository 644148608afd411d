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

/// The same for integers and bool.
template <class F>
decltype(auto) switch_integers(DType t, const char* op, F&& f) {
  switch (t) {
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::i16:
      return f.template operator()<int16_t>();
    case DType::i8:
      return f.template operator()<int8_t>();
    case DType::u64:
      return f.template operator()<uint64_t>();
    case DType::u32:
      return f.template operator()<uint32_t>();
    case DType::u16:
      return f.template operator()<uint16_t>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    case DType::boolean:
      return f.template operator()<bool>();
    default:
      fail<DTypeError>("{}: expected integers or bool, got {}", op, t);
  }
}

/// The same for every dtype that is computed with.
template <class F>
decltype(auto) switch_computed(DType t, const char* op, F&& f) {
  return is_floating(t) ? switch_float(t, op, f) : switch_integers(t, op, f);
}

/// The same for complex dtypes, with Complex<float> or Complex<double>.
template <class F>
decltype(auto) switch_complex(DType t, const char* op, F&& f) {
  switch (t) {
    case DType::c64:
      return f.template operator()<Complex<float>>();
    case DType::c128:
      return f.template operator()<Complex<double>>();
    default:
      fail<DTypeError>("{}: expected a complex dtype, got {}", op, t);
  }
}

/// The same for every dtype.
template <class F>
decltype(auto) switch_all(DType t, F&& f) {
  switch (t) {
    case DType::f8_e4m3:
      return f.template operator()<Float8E4M3>();
    case DType::f8_e5m2:
      return f.template operator()<Float8E5M2>();
    case DType::c64:
    case DType::c128:
      return switch_complex(t, "dtype", f);
    default:
      return switch_computed(t, "dtype", f);
  }
}

/// Calls f with the type of a real dtype's carrier: double, float, int64_t or uint64_t.
template <class F>
decltype(auto) switch_carrier(DType t, F&& f) {
  switch (carrier_of(t)) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::u64:
      return f.template operator()<uint64_t>();
    default:
      return f.template operator()<int64_t>();
  }
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
struct ComputeType<Float8E4M3> {
  using type = float;
};
template <>
struct ComputeType<Float8E5M2> {
  using type = float;
};
template <>
struct ComputeType<bool> {
  using type = int;
};
template <class T>
using Compute = typename ComputeType<T>::type;

}  // namespace mica

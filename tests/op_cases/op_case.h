#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include "mica/mica.h"
#include "mica/op/dispatch.h"

namespace mica::cases {

/// Values of a tensor on the host, row-major.
struct HostArray {
  Shape shape;
  std::vector<double> values;
};

/// How one input of a sample is made.
struct Input {
  Shape shape;
  double low = -2;
  double high = 2;
  double away_from_zero = 0;  ///< where a kink lies at zero
  bool distinct = false;      ///< no two values close: where the largest is chosen
  bool differentiable = true;
  std::vector<double> values = {};  ///< given instead of drawn
  DType (*dtype)(DType) = [](DType tested) { return tested; };
  bool defined = true;
  bool dense = false;  ///< row-major in every layout

  Input in(double from, double to) && {
    low = from, high = to;
    return std::move(*this);
  }
  Input away(double distance) && {
    away_from_zero = distance;
    return std::move(*this);
  }
  Input spread() && {
    distinct = true;
    return std::move(*this);
  }
  Input constant() && {
    differentiable = false;
    return std::move(*this);
  }
  Input of(std::vector<double> given) && {
    values = std::move(given);
    return std::move(*this);
  }
  /// f32 where the tested dtype is f16 or bf16.
  Input statistic() && {
    dtype = [](DType t) { return t == DType::f64 ? DType::f64 : DType::f32; };
    return std::move(*this);
  }
  template <DType t>
  Input as() && {
    dtype = [](DType) { return t; };
    differentiable = differentiable && is_floating(t);
    return std::move(*this);
  }
};

inline Input x(const Shape& shape) { return {.shape = shape}; }
inline Input absent() { return {.shape = {}, .differentiable = false, .defined = false}; }
/// A counter of random numbers, as rng_take gives it.
inline Input counter(double seed, double block) {
  return Input{.shape = {2}, .values = {seed, block}, .dense = true}.as<DType::i64>();
}
/// NaN, infinities, numbers at both ends of the range; rounded to the dtype under test.
std::vector<double> hostile_values();

/// What a sample's call is given.
struct Args {
  Tensors in;
  DType dtype;
  Device device;
  const Tensor& operator[](size_t i) const { return in[i]; }
};

/// The same on the host, in double, rounded to the tested dtype.
struct HostArgs {
  std::vector<HostArray> in;
  const HostArray& operator[](size_t i) const { return in[i]; }
};

inline const std::vector<DType> kFloats = {DType::f64, DType::f32, DType::f16, DType::bf16};
inline const std::vector<DType> kSigned = {DType::i64, DType::i32, DType::i16, DType::i8};
inline const std::vector<DType> kUnsigned = {DType::u64, DType::u32, DType::u16, DType::u8};

inline std::vector<DType> joined(std::vector<DType> all, const std::vector<DType>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
inline const std::vector<DType> kIntegers = joined(kSigned, kUnsigned);
inline const std::vector<DType> kWhole = joined(kIntegers, {DType::boolean});
inline const std::vector<DType> kNumbers = joined(kFloats, kIntegers);
inline const std::vector<DType> kEveryDType = joined(kFloats, kWhole);

/// One set of inputs and the call to make with them.
struct Sample {
  std::string name;
  std::vector<Input> in;
  /// Calls the public function; the outputs come first, tensors it wrote to after them.
  std::function<Tensors(const Args&)> call;
  /// What must come out, written without the library. Where there is none the CPU's "reference"
  /// kernel is asked, with the inputs in f64.
  std::function<std::vector<HostArray>(const HostArgs&)> oracle = nullptr;
  std::vector<DType> dtypes = kFloats;
  bool gradient = true;
  bool compiled = true;
  bool layouts = true;
  bool exact = false;  ///< every bit of the result is defined
};

/// The largest error allowed, relative to the value plus the root mean square of its tensor. A
/// result that is rounded once from the exact one differs by at most 1.2e-16, 6e-8, 4.9e-4, 3.9e-3.
struct Tolerance {
  double f64, f32, f16, bf16;

  double of(DType t) const {
    switch (t) {
      case DType::f64:
        return f64;
      case DType::f32:
        return f32;
      case DType::f16:
        return f16;
      case DType::bf16:
        return bf16;
      default:
        return 0;  // integers are exact
    }
  }
};

struct Tolerances {
  Tolerance forward;
  Tolerance gradient;  ///< of each input, computed in the dtype, against the f64 gradient
};
/// Of a function that is made of several ops.
inline constexpr Tolerances kSeveralRoundings = {{1e-14, 2e-6, 4e-3, 3.2e-2},
                                                 {1e-13, 1e-5, 6e-3, 4.8e-2}};

/// A call that must be refused.
struct BadCall {
  const std::type_info* type;
  std::string fragment;  ///< of the message
  std::function<void(Device)> call;
};
template <class E>
BadCall bad(std::string fragment, std::function<void(Device)> call) {
  return {&typeid(E), std::move(fragment), std::move(call)};
}

/// Everything the suite knows of one operator.
struct OpCase {
  const char* op;
  std::vector<Sample> samples;
  std::vector<BadCall> bad = {};
  bool second_order = true;                  ///< claimed; where it is not, asking for it must raise
  const char* no_empty = nullptr;            ///< why no sample is empty
  const char* no_single = nullptr;           ///< why none has one element
  std::optional<Tolerances> tolerance = {};  ///< where the table has no row for it
};

/// Adds a room's cases to the suite: `const Room kRoom([] { return std::vector<OpCase>{…}; });`.
class Room {
 public:
  explicit Room(std::vector<OpCase> (*cases)());
};
std::vector<OpCase> all_cases();

/// The op's definition; null for a composite.
inline OpDef* definition_of(const OpCase& c) {
  for (const char* name : composite_ops())
    if (std::string_view(name) == c.op) return nullptr;
  return &find_op(c.op);
}
/// Whether the case claims a gradient: a composite has one unless no sample asks for it.
inline bool has_gradient(const OpCase& c) {
  if (const OpDef* op = definition_of(c)) return op->vjp != nullptr;
  return std::any_of(c.samples.begin(), c.samples.end(),
                     [](const Sample& s) { return s.gradient; });
}

/// Calls an operator as dispatch does, for outputs its public function does not return.
template <class P>
Tensors call_op(const char* op, const P& params, const Tensors& in) {
  const Outputs out = dispatch(find_op(op), params, in);
  return {out.span().begin(), out.span().end()};
}

}  // namespace mica::cases

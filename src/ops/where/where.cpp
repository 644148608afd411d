#include "mica/ops/where/where.h"

#include <cmath>
#include <limits>

#include "mica/core/switch_bytes.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/calls.h"
#include "mica/ops/elementwise/cpu.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/where/functors.h"

namespace mica {
namespace {

using namespace elementwise;

void infer_where(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check(in[1].defined && in[2].defined, "where: both values must be defined");
  check<DTypeError>(in[1].dtype == in[2].dtype, "where: values must have one dtype, got {} and {}",
                    in[1].dtype, in[2].dtype);
  const Shape values = broadcast_shapes(in[1].shape, in[2].shape, "where");
  out.add(broadcast_shapes(in[0].shape, values, "where"), in[1].dtype);
}

Tensors vjp_where(const NoParams&, const VjpArgs& a) {
  const Tensor& condition = a.in[0];
  return {Tensor(), for_input(a, 1, [&] { return where(condition, a.grad[0], 0.0); }),
          for_input(a, 2, [&] { return where(condition, 0.0, a.grad[0]); })};
}

std::shared_ptr<LoopState<4>> prepare_where(const NoParams&, const Specs& s) {
  const Shape& shape = s.out[0].shape;
  return std::make_shared<LoopState<4>>(StridedLoop<4>(
      shape, {s.out[0].strides, broadcast_strides(s.in[0], shape),
              broadcast_strides(s.in[1], shape), broadcast_strides(s.in[2], shape)}));
}

/// Values move as they are: one loop for each size serves all dtypes.
template <class Bits>
void choose(const StridedLoop<4>& loop, const Call& c) {
  const int64_t so = loop.inner_stride(0);
  const int64_t sc = loop.inner_stride(1);
  const int64_t sa = loop.inner_stride(2);
  const int64_t sb = loop.inner_stride(3);
  loop.each_run([&](const std::array<int64_t, 4>& at, int64_t n) {
    Bits* out = c.out[0].as<Bits>() + at[0];
    const auto* condition = c.in[0].as<uint8_t>() + at[1];
    const Bits* a = c.in[1].as<Bits>() + at[2];
    const Bits* b = c.in[2].as<Bits>() + at[3];
    if (so == 1 && sc == 1 && sa == 1 && sb == 1) {
      for (int64_t i = 0; i < n; ++i) {
        const Bits u = a[i];  // read both: then the loop has no branch
        const Bits v = b[i];
        out[i] = condition[i] ? u : v;
      }
    } else if (so == 1 && sc == 1 && sa == 1 && sb == 0) {
      const Bits value = *b;
      for (int64_t i = 0; i < n; ++i) out[i] = condition[i] ? a[i] : value;
    } else if (so == 1 && sc == 1 && sa == 0 && sb == 1) {
      const Bits value = *a;
      for (int64_t i = 0; i < n; ++i) out[i] = condition[i] ? value : b[i];
    } else {
      for (int64_t i = 0; i < n; ++i) out[i * so] = condition[i * sc] ? a[i * sa] : b[i * sb];
    }
  });
}

void run_where(const NoParams&, const LoopState<4>& state, const Call& c) {
  switch_words(size_of(c.out[0].dtype()), [&]<class Bits>() { choose<Bits>(state.loop, c); });
}

Tensors vjp_clamp(const ClampParams& p, const VjpArgs& a) {
  const Tensor& x = a.in[0];
  const Tensor inside =
      p.open ? logical_and(gt(x, p.low), lt(x, p.high)) : logical_and(ge(x, p.low), le(x, p.high));
  return {where(inside, a.grad[0], 0.0)};
}

}  // namespace

const OpDef& where_op() {
  static OpDef def = Op<NoParams>("where")
                         .dtypes(kBoolDType)
                         .moves()
                         .infer<infer_where>()
                         .vjp<vjp_where>({.in = {0}})
                         .elementwise(3)
                         .cpu({kernel<supports_all<NoParams>, prepare_where, run_where>("strided")})
                         .build();
  return def;
}

const OpDef& clamp_op() {
  static OpDef def = elementwise_op<ClampParams>("clamp").vjp<vjp_clamp>({.in = {0}}).build();
  return def;
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const DType t = promote(a.dtype(), b.dtype());
  return dispatch(where_op(), NoParams{}, {condition, cast(a, t), cast(b, t)})[0];
}
Tensor where(const Tensor& condition, const Tensor& a, Number b) {
  return where(condition, a, number(b, a, "where"));
}
Tensor where(const Tensor& condition, Number a, const Tensor& b) {
  return where(condition, number(a, b, "where"), b);
}

namespace {

void check_number(const Tensor& x) {
  check<DTypeError>(kNumberDTypes.contains(x.dtype()), "clamp: expected {}, got {}",
                    kNumberDTypes.words(), x.dtype());
}

/// A bound of integers; none where their dtype ends before it does.
std::optional<Number> whole_bound(DType t, std::optional<Number> bound, bool upper) {
  if (!bound) return std::nullopt;
  const double value = bound->to_double();
  check<DTypeError>(value == std::floor(value), "clamp: bounds of {} must be whole numbers, got {}",
                    t, *bound);
  if (fits(*bound, t)) return held_in(t, *bound);
  check<DTypeError>((value > 0) == upper, "clamp: {} does not fit {}", *bound, t);
  return std::nullopt;
}

Tensor clamp_integers(const Tensor& x, std::optional<Number> low, std::optional<Number> high) {
  const std::optional<Number> least = whole_bound(x.dtype(), low, false);
  const std::optional<Number> most = whole_bound(x.dtype(), high, true);
  const Tensor up = least ? maximum(x, *least) : x;
  return most ? minimum(up, *most) : up;
}

}  // namespace

Tensor clamp(const Tensor& x, std::optional<Number> low, std::optional<Number> high) {
  check_number(x);
  if (is_integer(x.dtype())) return clamp_integers(x, low, high);
  ClampParams params;
  if (low) params.low = low->to_double();
  if (high) params.high = high->to_double();
  return clamp(x, params);
}
Tensor clamp(const Tensor& x, const ClampParams& params) {
  check_number(x);
  if (is_integer(x.dtype())) return clamp_integers(x, params.low, params.high);
  if (std::isnan(params.low) || std::isnan(params.high))
    return add(mul(x, 0.0), std::numeric_limits<double>::quiet_NaN());
  return dispatch(clamp_op(), params, {x})[0];
}
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  return minimum(maximum(x, low), high);
}

Functions where_functions() {
  using Three = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);
  const auto two_numbers = [](const Tensor& condition, Number input, Number other) {
    const bool floats = input.is_floating() || other.is_floating();
    const bool truth = input.is_bool() && other.is_bool();
    const bool complex = input.is_complex() || other.is_complex();
    const DType t = complex  ? DType::c64
                    : floats ? DType::f32
                    : truth  ? DType::boolean
                             : DType::i64;
    return where(condition, full({}, input, {t, condition.device()}), other);
  };
  using Bound = std::optional<Number>;
  const char* doc =
      "input where condition (bool) holds, else other; all three broadcast, dtypes promote. One of "
      "the two may be a number.";
  return {
      {.name = "where",
       .doc = doc,
       .signatures = {{Three(where), {"condition", "input", "other"}},
                      {overload<const Tensor&, const Tensor&, Number>(where),
                       {"condition", "input", "other"}},
                      {overload<const Tensor&, Number, const Tensor&>(where),
                       {"condition", "input", "other"}},
                      {two_numbers, {"condition", "input", "other"}}},
       .offer = kModule},
      {.name = "where",
       .doc = doc,
       .signatures = {{[](const Tensor& x, const Tensor& condition, const Tensor& other) {
                         return where(condition, x, other);
                       },
                       {"input", "condition", "other"}},
                      {[](const Tensor& x, const Tensor& condition, Number other) {
                         return where(condition, x, other);
                       },
                       {"input", "condition", "other"}}},
       .offer = kMethod},
      {.name = "clamp",
       .doc = "input between min and max, which may be left out; max wins if they cross. Bounds of "
              "integers are whole; NaN stays. Tensors as bounds broadcast.",
       .signatures = {{overload<const Tensor&, Bound, Bound>(clamp),
                       {"input", {"min", kNone}, {"max", kNone}}},
                      {Three(clamp), {"input", "min", "max"}}},
       .offer = kInPlaceToo,
       .second_names = {"clip"}},
      {.name = "clamp_min",
       .doc = "input where it is above min, a number or a tensor that broadcasts, else min.",
       .signatures = {{[](const Tensor& x, Number min) { return clamp(x, min, Bound()); },
                       {"input", "min"}},
                      {overload<const Tensor&, const Tensor&>(maximum), {"input", "min"}}},
       .offer = kInPlaceToo,
       .op = "clamp"},
      {.name = "clamp_max",
       .doc = "input where it is below max, a number or a tensor that broadcasts, else max.",
       .signatures = {{[](const Tensor& x, Number max) { return clamp(x, Bound(), max); },
                       {"input", "max"}},
                      {overload<const Tensor&, const Tensor&>(minimum), {"input", "max"}}},
       .offer = kInPlaceToo,
       .op = "clamp"},
  };
}

}  // namespace mica

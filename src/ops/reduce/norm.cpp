#include <cmath>
#include <limits>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/axes.h"
#include "mica/ops/reduce/cpu_reference.h"
#include "mica/ops/reduce/extreme.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void infer(const NormParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check(!std::isnan(p.p), "{}: p must be a number", out.op());
  if (p.p < 0 || p.p == kInfinity) check_not_empty(out.op(), in[0].shape, p.axes);
  add_reduced(out, in[0].shape, p.axes, p.keepdim, in[0].dtype);
}

Tensors vjp(const NormParams& p, const VjpArgs& a) {
  const Tensor& x = a.in[0];
  const DType t = x.dtype();
  const Tensor dy = with_axes(a.grad[0], x.shape(), p.axes);
  const Tensor y = with_axes(a.out[0], x.shape(), p.axes);
  if (p.p == 0) return {zeros_like(x)};
  if (p.p == 1) return {mul(dy, sign(x))};
  if (std::isinf(p.p)) {
    const Tensor ties = eq(abs(x), y);
    const Tensor share = div(dy, cast(sum(ties, p.axes, true), t));
    return {mul(mul(cast(ties, t), sign(x)), share)};
  }
  // x |x|^(p-2) / y^(p-1) dy, where neither base is 0.
  const Tensor zero = eq(y, 0);
  const Tensor base = where(zero, 1, y);
  const Tensor scale = where(zero, 0, div(dy, p.p == 2 ? base : pow(base, p.p - 1)));
  if (p.p == 2) return {mul(x, scale)};
  const Tensor none = eq(x, 0);
  const Tensor size = abs(where(none, 1, x));
  return {mul(where(none, 0, mul(sign(x), pow(size, p.p - 1))), scale)};
}

/// Sums of a power of |x|: the element's share of the sum is Power's.
template <class T, class Power>
struct PowerSum {
  using Value = T;
  using Lane = double;
  using Acc = double;
  Power power;
  double p;
  static Acc start() { return 0; }
  Lane map(T x) const { return power(std::abs(static_cast<double>(x))); }
  static Acc join(Acc a, Acc b) { return a + b; }
  void put(const Arg& out, int64_t at, Acc acc) const {
    reduction::put_float(out, at, p == 2 ? std::sqrt(acc) : p == 0 ? acc : std::pow(acc, 1 / p));
  }
};

struct Present {
  double operator()(double x) const { return x != 0 ? 1 : 0; }
};
struct Size {
  double operator()(double x) const { return x; }
};
struct Square {
  double operator()(double x) const { return x * x; }
};
struct AnyPower {
  double p;
  double operator()(double x) const { return std::pow(x, p); }
};

template <class T, class Order>
struct ExtremeSize : Extreme<T, Order> {
  static T map(T x) { return std::abs(x); }
};

std::shared_ptr<reduction::Plan> prepare(const NormParams& p, const Specs& s) {
  return std::make_shared<reduction::Plan>(s.in[0], s.out[0], p.axes, sizeof(double));
}

template <class T>
void run_as(const NormParams& p, const reduction::Plan& plan, const Call& c) {
  using reduction::Fold;
  using reduction::reduce;
  if (p.p == kInfinity) return reduce(plan, Fold<ExtremeSize<T, Largest>>(), c);
  if (p.p == -kInfinity) return reduce(plan, Fold<ExtremeSize<T, Smallest>>(), c);
  if (p.p == 0) return reduce(plan, Fold<PowerSum<T, Present>>{{{}, 0}}, c);
  if (p.p == 1) return reduce(plan, Fold<PowerSum<T, Size>>{{{}, 1}}, c);
  if (p.p == 2) return reduce(plan, Fold<PowerSum<T, Square>>{{{}, 2}}, c);
  reduce(plan, Fold<PowerSum<T, AnyPower>>{{{p.p}, p.p}}, c);
}

void run_vectorized(const NormParams& p, const reduction::Plan& plan, const Call& c) {
  c.in[0].dtype() == DType::f64 ? run_as<double>(p, plan, c) : run_as<float>(p, plan, c);
}

void run_reference(const NormParams& p, const Call& c) {
  reduction::reduce_reference<double>(p.axes, c, [&](const reduction::Elements<double>& x) {
    if (std::isinf(p.p)) {
      double best = p.p > 0 ? 0 : kInfinity;
      for (int64_t i = 0; i < x.size(); ++i) {
        const double size = std::abs(x[i]);
        if (p.p > 0 ? Largest::replaces(size, best) : Smallest::replaces(size, best)) best = size;
      }
      return best;
    }
    double sum = 0;
    for (int64_t i = 0; i < x.size(); ++i)
      sum += p.p == 0 ? (x[i] != 0 ? 1 : 0) : std::pow(std::abs(x[i]), p.p);
    return p.p == 0 ? sum : std::pow(sum, 1 / p.p);
  });
}

}  // namespace

const OpDef& norm_op() {
  static OpDef def =
      Op<NormParams>("norm")
          .inputs({"x"})
          .precision(Precision::f32)
          .reduction()
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({.in = {0}, .out = {0}})
          .cpu({kernel<supports_all<NormParams>, prepare, run_vectorized>("vectorized"),
                kernel<supports_all<NormParams>, run_reference>("reference")})
          .build();
  return def;
}

Tensor norm(const Tensor& x, double p, const Dims& axes, bool keepdim) {
  if (is_complex(x.dtype())) return norm(abs(x), p, axes, keepdim);
  return dispatch(norm_op(), NormParams{p, reduced_axes("norm", axes, x.rank()), keepdim}, {x})[0];
}

}  // namespace mica

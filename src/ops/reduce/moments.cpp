#include <cmath>

#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/axes.h"
#include "mica/ops/reduce/cpu_engine.h"
#include "mica/ops/reduce/cpu_reference.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

void infer(const VarParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  add_reduced(out, in[0].shape, p.axes, p.keepdim, in[0].dtype);
}

double degrees_of_freedom(const VarParams& p, int64_t n) {
  return std::max(0.0, static_cast<double>(n) - p.correction);
}

/// The variance's gradient for the cotangent dy, 2 / (n - correction) * dy * (x - mean). Deviations
/// of f16 and bf16 are taken in f32: a rounded mean may be as far away as they are large.
Tensor var_gradient(const VarParams& p, const Tensor& x, const Tensor& dy) {
  const double scale = 2 / degrees_of_freedom(p, reduced_count(x.shape(), p.axes));
  const Tensor wide = x.dtype() == DType::f64 ? x : cast(x, DType::f32);
  const Tensor deviations = sub(wide, mean(wide, p.axes, true));
  const Tensor factor = mul(cast(with_axes(dy, x.shape(), p.axes), wide.dtype()), scale);
  return cast(mul(factor, deviations), x.dtype());
}

Tensors vjp_var(const VarParams& p, const VjpArgs& a) {
  return {var_gradient(p, a.in[0], a.grad[0])};
}

Tensors vjp_std(const VarParams& p, const VjpArgs& a) {
  const Tensor& y = a.out[0];
  const Tensor zero = eq(y, 0);
  const Tensor root = where(zero, 1, y);  // no division by zero, in second order either
  return {var_gradient(p, a.in[0], where(zero, 0, div(a.grad[0], mul(root, 2))))};
}

/// Mean and squared deviations of blocks, each in two passes, then put together.
template <class T>
struct Moments {
  using Value = T;
  struct Acc {
    double n, mean, squares;
  };
  VarParams params;
  bool root;

  Acc start() const { return {0, 0, 0}; }

  void add(Acc& acc, const T* x, int64_t n, int64_t) const {
    const auto count = static_cast<double>(n);
    const double about = reduction::sum_lanes<T, double>(x, n) / count;
    const Sums s = deviations(x, n, about);
    // `about` is rounded: the rest of the mean is in the deviations.
    const double rest = s.first / count;
    merge(acc, {count, about + rest, s.second - rest * s.first});
  }

  void merge(Acc& acc, const Acc& more) const {
    if (more.n == 0) return;
    const double n = acc.n + more.n;
    const double delta = more.mean - acc.mean;
    acc.squares += more.squares + delta * delta * (acc.n * more.n / n);
    acc.mean += delta * (more.n / n);
    acc.n = n;
  }

  struct Columns {
    double n;
    alignas(64) double mean[reduction::kColumns];
    alignas(64) double squares[reduction::kColumns];
    Acc at(int64_t j) const { return {n, mean[j], squares[j]}; }
  };
  void start(Columns& c, int64_t m) const {
    c.n = 0;
    std::fill_n(c.mean, m, 0.0);
    std::fill_n(c.squares, m, 0.0);
  }
  /// Four rows at a time, then one at a time.
  void add_rows(Columns& c, const T* x, int64_t step, int64_t rows, int64_t m, int64_t) const {
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4, x += 4 * step) {
      const double share = 4 / (c.n + 4);
      const double weight = c.n * share;
      for (int64_t j = 0; j < m; ++j) {
        const auto x0 = static_cast<double>(x[j]);
        const auto x1 = static_cast<double>(x[j + step]);
        const auto x2 = static_cast<double>(x[j + 2 * step]);
        const auto x3 = static_cast<double>(x[j + 3 * step]);
        // From the first of them, in case they are large and close.
        const double d1 = x1 - x0, d2 = x2 - x0, d3 = x3 - x0;
        const double rest = (d1 + d2 + d3) / 4;
        const double squares = rest * rest + (d1 - rest) * (d1 - rest) + (d2 - rest) * (d2 - rest) +
                               (d3 - rest) * (d3 - rest);
        const double delta = x0 + rest - c.mean[j];
        c.squares[j] += squares + delta * delta * weight;
        c.mean[j] += delta * share;
      }
      c.n += 4;
    }
    for (; row < rows; ++row, x += step) {
      c.n += 1;
      const double share = 1 / c.n;
      for (int64_t j = 0; j < m; ++j) {
        const double delta = static_cast<double>(x[j]) - c.mean[j];
        c.mean[j] += delta * share;
        c.squares[j] += delta * (static_cast<double>(x[j]) - c.mean[j]);
      }
    }
  }

  void put(const Arg& out, int64_t at, const Acc& acc) const {
    const double squares = acc.squares < 0 ? 0 : acc.squares;
    const double variance = squares / std::max(0.0, acc.n - params.correction);
    reduction::put_float(out, at, root ? std::sqrt(variance) : variance);
  }

 private:
  struct Sums {
    double first, second;
  };
  /// Sums of x - about and of its square.
  static Sums deviations(const T* x, int64_t n, double about) {
    constexpr int kLanes = 16;  // of two sums
    double first[kLanes] = {};
    double second[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int l = 0; l < kLanes; ++l) {
        const double d = static_cast<double>(x[i + l]) - about;
        first[l] += d;
        second[l] += d * d;
      }
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) {
        first[l] += first[l + half];
        second[l] += second[l + half];
      }
    for (; i < n; ++i) {
      const double d = static_cast<double>(x[i]) - about;
      first[0] += d;
      second[0] += d * d;
    }
    return {first[0], second[0]};
  }
};

std::shared_ptr<reduction::Plan> prepare(const VarParams& p, const Specs& s) {
  return std::make_shared<reduction::Plan>(s.in[0], s.out[0], p.axes, sizeof(Moments<double>::Acc));
}

void run_moments(const VarParams& p, const reduction::Plan& plan, const Call& c, bool root) {
  if (c.in[0].dtype() == DType::f64) return reduction::reduce(plan, Moments<double>{p, root}, c);
  reduction::reduce(plan, Moments<float>{p, root}, c);
}

template <bool root>
void run_vectorized(const VarParams& p, const reduction::Plan& plan, const Call& c) {
  run_moments(p, plan, c, root);
}

template <bool root>
void run_reference(const VarParams& p, const Call& c) {
  reduction::reduce_reference<double>(p.axes, c, [&](const reduction::Elements<double>& x) {
    const auto n = static_cast<double>(x.size());
    double mean = 0;
    for (int64_t i = 0; i < x.size(); ++i) mean += x[i] / n;
    double squares = 0;
    for (int64_t i = 0; i < x.size(); ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double variance = squares / degrees_of_freedom(p, x.size());
    return root ? std::sqrt(variance) : variance;
  });
}

Tensor call(const OpDef& op, const Tensor& x, const Dims& axes, bool keepdim, double correction) {
  return dispatch(op, VarParams{reduced_axes(op.name, axes, x.rank()), keepdim, correction},
                  {x})[0];
}

}  // namespace

const OpDef& var_op() {
  static OpDef def =
      Op<VarParams>("var")
          .inputs({"x"})
          .precision(Precision::f32)
          .reduction()
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp_var>({.in = {0}})
          .cpu({kernel<supports_all<VarParams>, prepare, run_vectorized<false>>("vectorized"),
                kernel<supports_all<VarParams>, run_reference<false>>("reference")})
          .build();
  return def;
}

const OpDef& std_op() {
  static OpDef def =
      Op<VarParams>("std")
          .inputs({"x"})
          .precision(Precision::f32)
          .reduction()
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp_std>({.in = {0}, .out = {0}})
          .cpu({kernel<supports_all<VarParams>, prepare, run_vectorized<true>>("vectorized"),
                kernel<supports_all<VarParams>, run_reference<true>>("reference")})
          .build();
  return def;
}

Tensor var(const Tensor& x, const Dims& axes, bool keepdim, double correction) {
  if (is_complex(x.dtype()))
    return add(var(real(x), axes, keepdim, correction), var(imag(x), axes, keepdim, correction));
  return call(var_op(), x, axes, keepdim, correction);
}
Tensor std(const Tensor& x, const Dims& axes, bool keepdim, double correction) {
  if (is_complex(x.dtype())) return sqrt(var(x, axes, keepdim, correction));
  return call(std_op(), x, axes, keepdim, correction);
}

}  // namespace mica

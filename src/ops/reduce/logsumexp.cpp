#include <cmath>
#include <limits>

#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/axes.h"
#include "mica/ops/reduce/cpu_reference.h"
#include "mica/ops/reduce/extreme.h"
#include "mica/ops/where/where.h"
#include "mica/runtime/cpu/simd.h"

namespace mica {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void infer(const ReduceParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  add_reduced(out, in[0].shape, p.axes, p.keepdim, in[0].dtype);
}

/// Each element's share of the sum, from the elements alone: the result is rounded, and where it is
/// large its rounding would be the gradient's error. No share where all is -infinity.
Tensors vjp(const ReduceParams& p, const VjpArgs& a) {
  const Tensor& x = a.in[0];
  if (x.numel() == 0) return {zeros_like(x)};
  const Tensor largest = max(x.detach(), p.axes, true);
  const Tensor powers = exp(sub(x, where(eq(largest, -kInfinity), 0, largest)));
  const Tensor total = sum(powers, p.axes, true);
  const Tensor scale = div(with_axes(a.grad[0], x.shape(), p.axes), where(eq(total, 0), 1, total));
  return {mul(powers, scale)};
}

template <class T>
void exp_in_place(T* x, int64_t n) {
  using Vec = simd::Vec<T>;
  int64_t i = 0;
  for (; i + Vec::kWidth <= n; i += Vec::kWidth) exp(Vec::load(x + i)).store(x + i);
  if (i == n) return;
  T rest[Vec::kWidth] = {};
  std::copy(x + i, x + n, rest);
  exp(Vec::load(rest)).store(rest);
  std::copy_n(rest, n - i, x + i);
}

/// What the largest of some elements is subtracted as: infinities stay in the exponent.
template <class T>
T shift_of(T largest) {
  return largest == -std::numeric_limits<T>::infinity() ? T(0) : largest;
}

/// The largest element, and the sum of exp(x - largest). A sum with an element of +infinity is
/// written 1.
template <class T>
struct LogSumExp {
  using Value = T;
  using Maximum = reduction::Fold<Extreme<T, Largest>>;
  struct Acc {
    double largest, sum;
  };

  Acc start() const { return {-kInfinity, 0}; }

  void add(Acc& acc, const T* x, int64_t n, int64_t) const {
    const Maximum maximum;
    T largest = maximum.start();
    maximum.add(largest, x, n, 0);
    const T shift = shift_of(largest);
    T shares[reduction::kBlock];
    for (int64_t i = 0; i < n; ++i) shares[i] = x[i] - shift;
    exp_in_place(shares, n);
    merge(acc, finished(largest, reduction::sum_lanes<T, double>(shares, n)));
  }

  void merge(Acc& acc, const Acc& more) const {
    const double largest =
        Largest::replaces(more.largest, acc.largest) ? more.largest : acc.largest;
    const double shift = shift_of(largest);
    const double sum =
        acc.sum * std::exp(acc.largest - shift) + more.sum * std::exp(more.largest - shift);
    acc = finished(largest, sum);
  }

  struct Columns {
    alignas(64) T largest[reduction::kColumns];
    alignas(64) double sum[reduction::kColumns];
    Acc at(int64_t j) const { return finished(largest[j], sum[j]); }
  };
  void start(Columns& c, int64_t m) const {
    std::fill_n(c.largest, m, -std::numeric_limits<T>::infinity());
    std::fill_n(c.sum, m, 0.0);
  }
  /// Some rows together, so that what was summed before is scaled once for all of them.
  void add_rows(Columns& c, const T* x, int64_t step, int64_t rows, int64_t m, int64_t) const {
    alignas(64) T shift[reduction::kColumns];
    alignas(64) T shares[reduction::kColumns];
    for (int64_t first = 0; first < rows; first += reduction::kRows) {
      const int64_t last = std::min(first + reduction::kRows, rows);
      std::copy_n(c.largest, m, shares);
      for (int64_t row = first; row < last; ++row)
        for (int64_t j = 0; j < m; ++j)
          c.largest[j] = Extreme<T, Largest>::join(c.largest[j], x[row * step + j]);
      for (int64_t j = 0; j < m; ++j) {
        shift[j] = shift_of(c.largest[j]);
        shares[j] -= shift[j];
      }
      exp_in_place(shares, m);
      for (int64_t j = 0; j < m; ++j) c.sum[j] *= static_cast<double>(shares[j]);
      for (int64_t row = first; row < last; ++row) {
        for (int64_t j = 0; j < m; ++j) shares[j] = x[row * step + j] - shift[j];
        exp_in_place(shares, m);
        for (int64_t j = 0; j < m; ++j) c.sum[j] += static_cast<double>(shares[j]);
      }
    }
  }

  void put(const Arg& out, int64_t at, const Acc& acc) const {
    reduction::put_float(out, at, acc.largest + std::log(acc.sum));
  }

 private:
  static Acc finished(T largest, double sum) {
    return {static_cast<double>(largest), largest == std::numeric_limits<T>::infinity() ? 1 : sum};
  }
};

std::shared_ptr<reduction::Plan> prepare(const ReduceParams& p, const Specs& s) {
  return std::make_shared<reduction::Plan>(s.in[0], s.out[0], p.axes,
                                           sizeof(LogSumExp<double>::Acc));
}

void run_vectorized(const ReduceParams&, const reduction::Plan& plan, const Call& c) {
  if (c.in[0].dtype() == DType::f64) return reduction::reduce(plan, LogSumExp<double>(), c);
  reduction::reduce(plan, LogSumExp<float>(), c);
}

void run_reference(const ReduceParams& p, const Call& c) {
  reduction::reduce_reference<double>(p.axes, c, [](const reduction::Elements<double>& x) {
    double largest = -kInfinity;
    for (int64_t i = 0; i < x.size(); ++i)
      if (Largest::replaces(x[i], largest)) largest = x[i];
    if (std::isinf(largest)) return largest;
    double sum = 0;
    for (int64_t i = 0; i < x.size(); ++i) sum += std::exp(x[i] - largest);
    return largest + std::log(sum);
  });
}

}  // namespace

const OpDef& logsumexp_op() {
  static OpDef def =
      Op<ReduceParams>("logsumexp")
          .inputs({"x"})
          .precision(Precision::f32)
          .reduction()
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({.in = {0}})
          .cpu({kernel<supports_all<ReduceParams>, prepare, run_vectorized>("vectorized"),
                kernel<supports_all<ReduceParams>, run_reference>("reference")})
          .build();
  return def;
}

Tensor logsumexp(const Tensor& x, const Dims& axes, bool keepdim) {
  return dispatch(logsumexp_op(), ReduceParams{reduced_axes("logsumexp", axes, x.rank()), keepdim},
                  {x})[0];
}

}  // namespace mica

#include <numeric>

#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/jacobi_lanes.h"
#include "mica/ops/linalg/kernels.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/params.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

const OpDef& svd_op();

namespace linalg {
namespace {

void infer(const SvdParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_matrix("linalg.svd", in[0]);
  const Shape batch = batch_of(in[0].shape);
  const int64_t m = rows_of(in[0].shape);
  const int64_t n = columns_of(in[0].shape);
  const int64_t k = std::min(m, n);
  const auto vectors = [&](int64_t rows, int64_t columns) {
    return p.vectors ? with(batch, {rows, columns}) : Shape{0};
  };
  add_dense(out, vectors(m, p.full ? m : k), in[0].dtype);
  add_dense(out, with(batch, {k}), real_dtype(in[0].dtype));
  add_dense(out, vectors(p.full ? n : k, n), in[0].dtype);
}

Tensor sum_of(const Tensor& a, const Tensor& b) { return a.defined() ? a + b : b; }

/// Of the first min(m, n) singular vectors. Where singular values are equal, or zero, their vectors
/// are not determined, and a gradient through them is infinite or NaN; one through the values is
/// right.
Tensors vjp(const SvdParams& p, const VjpArgs& a) {
  Tensor u = a.out[0];
  Tensor vh = a.out[2];
  const Tensor& s = a.out[1];
  const int64_t k = s.shape().back();
  if (!p.vectors) {
    const Outputs again = dispatch(svd_op(), SvdParams{true, false}, {a.in[0]});
    u = again[0], vh = again[2];
  }
  const int64_t m = rows_of(u.shape());
  const int64_t n = columns_of(vh.shape());
  Tensor gu = a.grad[0];
  Tensor gvh = a.grad[2];
  if (p.full) {
    u = narrow(u, -1, 0, k);
    vh = narrow(vh, -2, 0, k);
    if (gu.defined()) gu = narrow(gu, -1, 0, k);
    if (gvh.defined()) gvh = narrow(gvh, -2, 0, k);
  }
  Tensor middle;
  if (a.grad[1].defined()) middle = diagonal_matrix(a.grad[1]);
  Tensor rest;
  if (p.vectors && (gu.defined() || gvh.defined())) {
    const Tensor one = eye_like(s, k);
    const Tensor row = unsqueeze(s, -2);
    const Tensor column = unsqueeze(s, -1);
    const Tensor apart = (row - column) * (row + column) + one;
    const bool complex = is_complex(u.dtype());
    // Of complex numbers the difference has a diagonal of its own: both vectors may be multiplied
    // by one number of size 1, so it is left to U alone.
    const auto skew = [&](const Tensor& x) {
      const Tensor difference = x - adjoint(x);
      return (complex ? difference * (1.0 - one) : difference) / apart;
    };
    if (gu.defined()) {
      const Tensor along = mica::matmul(adjoint(u), gu);
      middle = sum_of(middle, skew(along) * row);
      if (complex) middle = middle + (along - adjoint(along)) * one / (2.0 * row);
      if (m > k) rest = mica::matmul((gu - mica::matmul(u, along)) / row, vh);
    }
    if (gvh.defined()) {
      const Tensor gv = adjoint(gvh);
      const Tensor along = mica::matmul(vh, gv);
      middle = sum_of(middle, column * skew(along));
      if (n > k) {
        const Tensor outside = (gvh - mica::matmul(mica::matmul(gvh, adjoint(vh)), vh)) / column;
        rest = sum_of(rest, mica::matmul(u, outside));
      }
    }
  }
  const Tensor g = mica::matmul(mica::matmul(u, middle), vh);
  return {sum_of(rest, g)};
}

struct SvdOp : MatrixOp<SvdParams> {
  using MatrixOp::MatrixOp;
  int64_t longer = std::max(m, n);
  double work() const { return 20 * static_cast<double>(m * n) * static_cast<double>(k); }

  template <class T>
  void check_input() const {
    check_finite(Failure::svd, call.in[0].as<T>(), count * m * n);
  }
  template <class T>
  auto by_reference() const {
    return [this, u = dense::Matrix<Wide<T>>(), s = std::vector<double>(),
            vh = dense::Matrix<Wide<T>>()](int64_t b) mutable {
      const auto a = widened(in<T>(0, b), m * n);
      check_converged(Failure::svd, dense::svd(m, n, a.data(), p.full, u, s, vh), b, count);
      store(s, out<Real<T>>(1, b));
      if (!p.vectors) return;
      store(u, out<T>(0, b));
      store(vh, out<T>(2, b));
    };
  }
  /// What lies row-major is Aᵀ = V̄ diag(s) Uᵀ to LAPACK: its U is our Vh where that lies, and its
  /// Vᴴ our U.
  template <class T>
  auto by_lapack() const {
    return [this, a = std::vector<T>(static_cast<size_t>(m * n)), none = T()](int64_t b) mutable {
      std::copy_n(in<T>(0, b), m * n, a.data());
      T* u = p.vectors ? out<T>(0, b) : &none;
      T* vh = p.vectors ? out<T>(2, b) : &none;
      const int info = gesdd(p.vectors ? (p.full ? 'A' : 'S') : 'N', static_cast<int>(n),
                             static_cast<int>(m), a.data(), out<Real<T>>(1, b), vh,
                             static_cast<int>(n), u, static_cast<int>(p.full ? m : k));
      check_converged(Failure::svd, info == 0, b, count);
    };
  }
  static const char* refuses_lanes(const SvdParams& p, const Specs& s) {
    const Shape& a = s.in[0].shape;
    if (p.full && p.vectors && rows_of(a) != columns_of(a))
      return "it gives the first min(m, n) singular vectors alone";
    return numel(a) == 0 ? "the matrices are empty" : nullptr;
  }
  template <class T>
  auto in_lanes() const {
    return [this, a = LaneBuffer<T>(m * n), rows = LaneBuffer<T>(m * n), v = LaneBuffer<T>(k * k),
            singly = by_reference<T>()](int64_t first) mutable {
      fill_lanes(0, first, a);
      for (int64_t j = 0; j < k; ++j)
        for (int64_t i = 0; i < longer; ++i)
          rows[j * longer + i] = m >= n ? a[i * n + j] : a[j * n + i];
      const bool done =
          orthogonalize_lanes<T>(k, longer, rows.data(), p.vectors ? v.data() : nullptr);
      for (int l = 0; l < used_lanes<T>(first); ++l)
        if (!done || !store_lane<T>(first + l, l, rows.data(), v.data())) singly(first + l);
    };
  }

 private:
  /// Of one lane: `rows` (k, longer) are the long singular vectors times their values, v (k, k) the
  /// short ones. False where a value is zero but for rounding: its vector must be made up.
  template <class T>
  bool store_lane(int64_t b, int lane, const Lanes<T>* rows, const Lanes<T>* v) const {
    std::array<T, kLargestInLanes> lengths{};
    std::array<int, kLargestInLanes> order{};
    for (int64_t j = 0; j < k; ++j) {
      T sum = 0;
      for (int64_t i = 0; i < longer; ++i)
        sum += rows[j * longer + i][lane] * rows[j * longer + i][lane];
      lengths[static_cast<size_t>(j)] = std::sqrt(sum);
    }
    std::iota(order.begin(), order.begin() + k, 0);
    std::stable_sort(order.begin(), order.begin() + k, [&](int i, int j) {
      return lengths[static_cast<size_t>(i)] > lengths[static_cast<size_t>(j)];
    });
    const T largest = lengths[static_cast<size_t>(order[0])];
    const T least = lengths[static_cast<size_t>(order[static_cast<size_t>(k - 1)])];
    if (p.vectors && !(least > largest * std::numeric_limits<T>::epsilon() * 8)) return false;
    if (!(largest < std::sqrt(std::numeric_limits<T>::max()))) return false;
    if (!(largest == 0 || largest > std::sqrt(std::numeric_limits<T>::min()) * 1e3F)) return false;
    for (int64_t j = 0; j < k; ++j) {
      const int64_t from = order[static_cast<size_t>(j)];
      const T length = lengths[static_cast<size_t>(from)];
      out<T>(1, b)[j] = length;
      if (!p.vectors) continue;
      T* u = out<T>(0, b);
      T* vh = out<T>(2, b);
      const bool tall = m >= n;
      for (int64_t i = 0; i < longer; ++i) {
        const T value = rows[from * longer + i][lane] / length;
        (tall ? u[i * k + j] : vh[j * n + i]) = value;
      }
      for (int64_t i = 0; i < k; ++i) {
        const T value = v[from * k + i][lane];
        (tall ? vh[j * n + i] : u[i * k + j]) = value;
      }
    }
    return true;
  }
};

}  // namespace

Svd svd(const Tensor& a, bool full_matrices) {
  const Outputs out = dispatch(svd_op(), SvdParams{true, full_matrices}, {a});
  return {out[0], out[1], out[2]};
}
Tensor svdvals(const Tensor& a) { return dispatch(svd_op(), SvdParams{false, false}, {a})[1]; }

}  // namespace linalg

const OpDef& svd_op() {
  using namespace linalg;
  static OpDef def = Op<SvdParams>("svd")
                         .inputs({"a"})
                         .outputs({"u", "s", "vh"})
                         .dtypes(kMatrixDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp>({.in = {0}, .out = {0, 1, 2}})
                         .cpu(matrix_kernels<SvdOp>())
                         .build();
  return def;
}

}  // namespace mica

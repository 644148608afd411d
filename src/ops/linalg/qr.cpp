#include "mica/op/dispatch.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/kernels.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/params.h"
#include "mica/ops/linalg/qr_rows.h"
#include "mica/ops/linalg/triangular.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/triangle/triangle.h"

namespace mica {

const OpDef& qr_op();

namespace linalg {
namespace {

int64_t columns_of_q(const QrParams& p, const Shape& a) {
  return p.complete ? rows_of(a) : std::min(rows_of(a), columns_of(a));
}

void infer(const QrParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_matrix("linalg.qr", in[0]);
  const Shape& a = in[0].shape;
  const int64_t k = columns_of_q(p, a);
  add_dense(out, with(batch_of(a), {rows_of(a), k}), in[0].dtype);
  add_dense(out, with(batch_of(a), {k, columns_of(a)}), in[0].dtype);
}

/// Of a matrix with at least as many rows as columns.
Tensor vjp_of_square(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
  Tensor middle;
  if (gr.defined()) middle = mica::matmul(gr, adjoint(r));
  if (gq.defined()) {
    const Tensor along = mica::matmul(adjoint(q), gq);
    middle = middle.defined() ? middle - along : neg(along);
  }
  // What is above the diagonal, mirrored below it; of the diagonal the real part.
  const Tensor upper = triu(middle);
  const Tensor mirrored =
      (upper + adjoint(upper)) * (1.0 - 0.5 * eye_like(r, columns_of(r.shape())));
  const Tensor sum = mica::matmul(q, mirrored);
  return solve_upper(r, gq.defined() ? sum + gq : sum, {.left = false, .adjoint = true});
}

Tensors vjp(const QrParams& p, const VjpArgs& a) {
  const Tensor& q = a.out[0];
  const Tensor& r = a.out[1];
  const int64_t m = rows_of(q.shape());
  const int64_t n = columns_of(r.shape());
  check<Unsupported>(!p.complete || m <= n,
                     "linalg.qr: of mode complete a matrix of more rows than columns ({} × {}) has "
                     "no gradient: the columns of Q past those of the matrix are not determined",
                     m, n);
  if (m >= n) return {vjp_of_square(q, r, a.grad[0], a.grad[1])};
  // A = Q [U V]: V = Qᴴ Y, where Y is what follows the square part of A.
  const Tensor u = narrow(r, -1, 0, m);
  if (!a.grad[1].defined()) {
    const Tensor g = vjp_of_square(q, u, a.grad[0], Tensor());
    return {concat({g, zeros_like(narrow(r, -1, m, n - m))}, -1)};
  }
  const Tensor gu = narrow(a.grad[1], -1, 0, m);
  const Tensor gv = narrow(a.grad[1], -1, m, n - m);
  const Tensor y = mica::matmul(q, narrow(r, -1, m, n - m));
  Tensor gq = mica::matmul(y, adjoint(gv));
  if (a.grad[0].defined()) gq = gq + a.grad[0];
  return {concat({vjp_of_square(q, u, gq, gu), mica::matmul(q, gv)}, -1)};
}

/// As dense::qr; where there is nothing to reflect in a lane, its factor is 0.
template <class T>
void qr_lanes(int64_t m, int64_t n, int64_t columns, Lanes<T>* a, Lanes<T>* q, Lanes<T>* r,
              Lanes<T>* tau) {
  const int64_t count = std::min(m, n);
  for (int64_t j = 0; j < count; ++j) {
    const Lanes<T> alpha = a[j * n + j];
    Lanes<T> below{};
    for (int64_t i = j + 1; i < m; ++i) below += a[i * n + j] * a[i * n + j];
    const LaneMask<T> none = below == 0;
    const Lanes<T> length = sqrt(alpha * alpha + below);
    const Lanes<T> beta = none ? alpha : copysign(length, -alpha);
    const Lanes<T> safe = none ? Lanes<T>{} + 1 : beta;
    tau[j] = none ? Lanes<T>{} : (beta - alpha) / safe;
    const Lanes<T> scale = none ? Lanes<T>{} : 1 / (none ? Lanes<T>{} + 1 : alpha - beta);
    for (int64_t i = j + 1; i < m; ++i) a[i * n + j] *= scale;
    a[j * n + j] = beta;
    for (int64_t k = j + 1; k < n; ++k) {
      Lanes<T> sum = a[j * n + k];
      for (int64_t i = j + 1; i < m; ++i) sum += a[i * n + j] * a[i * n + k];
      sum *= tau[j];
      a[j * n + k] -= sum;
      for (int64_t i = j + 1; i < m; ++i) a[i * n + k] -= sum * a[i * n + j];
    }
  }
  for (int64_t i = 0; i < columns; ++i)
    for (int64_t k = 0; k < n; ++k) r[i * n + k] = k >= i ? a[i * n + k] : Lanes<T>{};
  for (int64_t i = 0; i < m; ++i)
    for (int64_t k = 0; k < columns; ++k) q[i * columns + k] = Lanes<T>{} + (i == k ? T(1) : T(0));
  for (int64_t j = count - 1; j >= 0; --j)
    for (int64_t k = j; k < columns; ++k) {
      Lanes<T> sum = q[j * columns + k];
      for (int64_t i = j + 1; i < m; ++i) sum += a[i * n + j] * q[i * columns + k];
      sum *= tau[j];
      q[j * columns + k] -= sum;
      for (int64_t i = j + 1; i < m; ++i) q[i * columns + k] -= sum * a[i * n + j];
    }
}

struct QrOp : MatrixOp<QrParams> {
  using MatrixOp::MatrixOp;
  int64_t columns = columns_of(call.out[0].shape());  ///< of Q
  static constexpr int64_t kLargestByRows = 128;
  double work() const { return 3 * static_cast<double>(m * n) * static_cast<double>(k); }

  template <class T>
  auto by_rows() const {
    return [this, compute = QrByRows<T>(m, n, columns)](int64_t b) mutable {
      compute(in<T>(0, b), out<T>(0, b), out<T>(1, b));
    };
  }
  template <class T>
  auto by_reference() const {
    return [this, q = std::vector<Wide<T>>(static_cast<size_t>(m * columns)),
            r = std::vector<Wide<T>>(static_cast<size_t>(columns * n))](int64_t b) mutable {
      auto a = widened(in<T>(0, b), m * n);
      dense::qr(m, n, a.data(), columns, q.data(), r.data());
      store(q, out<T>(0, b));
      store(r, out<T>(1, b));
    };
  }
  template <class T>
  auto by_lapack() const {
    const LapackRoutines<T>& routines = lapack().of<T>();
    const int rows = static_cast<int>(m);
    const int all = static_cast<int>(n);
    const int wanted = static_cast<int>(columns);
    const int reflections = static_cast<int>(k);
    const int ask = -1;
    int info = 0;
    T first{};
    T second{};
    routines.geqrf(&rows, &all, nullptr, &rows, nullptr, &first, &ask, &info);
    routines.orgqr(&rows, &wanted, &reflections, nullptr, &rows, nullptr, &second, &ask, &info);
    const int size = static_cast<int>(std::max({std::real(first), std::real(second), Real<T>(1)}));
    // Room for Q, which may have more columns than the matrix.
    return [=, this, a = std::vector<T>(static_cast<size_t>(m * std::max(n, columns))),
            tau = std::vector<T>(static_cast<size_t>(k)),
            work = std::vector<T>(static_cast<size_t>(size))](int64_t b) mutable {
      const LapackRoutines<T>& own = lapack().of<T>();
      transpose_into(in<T>(0, b), m, n, a.data());
      own.geqrf(&rows, &all, a.data(), &rows, tau.data(), work.data(), &size, &info);
      T* r = out<T>(1, b);
      for (int64_t i = 0; i < columns; ++i)
        for (int64_t j = 0; j < n; ++j)
          r[i * n + j] = j < i ? T(0) : a[static_cast<size_t>(j * m + i)];
      own.orgqr(&rows, &wanted, &reflections, a.data(), &rows, tau.data(), work.data(), &size,
                &info);
      transpose_into(a.data(), columns, m, out<T>(0, b));
    };
  }
  template <class T>
  auto in_lanes() const {
    return [this, a = LaneBuffer<T>(m * n), q = LaneBuffer<T>(m * columns),
            r = LaneBuffer<T>(columns * n), tau = LaneBuffer<T>(k)](int64_t first) mutable {
      fill_lanes(0, first, a);
      qr_lanes<T>(m, n, columns, a.data(), q.data(), r.data(), tau.data());
      take_lanes(q, 0, first);
      take_lanes(r, 1, first);
    };
  }
};

}  // namespace

Qr qr(const Tensor& a, QrMode mode) {
  const Outputs out = dispatch(qr_op(), QrParams{mode == QrMode::complete}, {a});
  if (mode == QrMode::r) return {zeros({0}, {a.dtype(), a.device()}), out[1]};
  return {out[0], out[1]};
}

}  // namespace linalg

const OpDef& qr_op() {
  using namespace linalg;
  static OpDef def = Op<QrParams>("qr")
                         .inputs({"a"})
                         .outputs({"q", "r"})
                         .dtypes(kMatrixDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp>({.out = {0, 1}})
                         .cpu(matrix_kernels<QrOp>())
                         .build();
  return def;
}

}  // namespace mica

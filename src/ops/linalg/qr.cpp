#include "mica/op/dispatch.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/lanes.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/triangular.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/triangle/triangle.h"

namespace mica {

const OpDef& qr_op();

namespace linalg {
namespace {

struct QrParams {
  bool complete = false;  ///< Q is (…, m, m)

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("complete", self.complete);
  }
};

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
  // What is above the diagonal, mirrored below it.
  const Tensor mirrored = triu(middle) + adjoint(triu(middle, 1));
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

struct Problem {
  int64_t m, n, k, count;
  explicit Problem(const Call& call)
      : m(rows_of(call.in[0].shape())),
        n(columns_of(call.in[0].shape())),
        k(columns_of(call.out[0].shape())),
        count(matrices_in(call.in[0].shape())) {}
  double work() const {
    return 3 * static_cast<double>(m * n) * static_cast<double>(std::min(m, n));
  }
};

void run_reference(const QrParams&, const Call& call) {
  const Problem d(call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    for_matrices(d.count, d.work(), [&](int64_t begin, int64_t end) {
      std::vector<Wide<T>> q(static_cast<size_t>(d.m * d.k));
      std::vector<Wide<T>> r(static_cast<size_t>(d.k * d.n));
      for (int64_t b = begin; b < end; ++b) {
        auto a = widened(call.in[0].as<T>() + b * d.m * d.n, d.m * d.n);
        dense::qr(d.m, d.n, a.data(), d.k, q.data(), r.data());
        store(q, call.out[0].as<T>() + b * d.m * d.k);
        store(r, call.out[1].as<T>() + b * d.k * d.n);
      }
    });
  });
}

void run_blas(const QrParams&, const Call& call) {
  const Problem d(call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    const LapackRoutines<T>& routines = lapack().of<T>();
    for_matrices(d.count, d.work(), [&](int64_t begin, int64_t end) {
      const int m = static_cast<int>(d.m);
      const int n = static_cast<int>(d.n);
      const int k = static_cast<int>(d.k);
      const int reflections = std::min(m, n);
      // Room for Q, which may have more columns than the matrix.
      std::vector<T> columns(static_cast<size_t>(d.m * std::max(d.n, d.k)));
      std::vector<T> tau(static_cast<size_t>(std::max(reflections, 1)));
      T size{};
      int info = 0;
      int lwork = -1;
      const int lda = std::max(m, 1);
      routines.geqrf(&m, &n, columns.data(), &lda, tau.data(), &size, &lwork, &info);
      int most = static_cast<int>(std::real(size));
      routines.orgqr(&m, &k, &reflections, columns.data(), &lda, tau.data(), &size, &lwork, &info);
      most = std::max({most, static_cast<int>(std::real(size)), 1});
      std::vector<T> work(static_cast<size_t>(most));
      for (int64_t b = begin; b < end; ++b) {
        transpose_into(call.in[0].as<T>() + b * d.m * d.n, d.m, d.n, columns.data());
        routines.geqrf(&m, &n, columns.data(), &lda, tau.data(), work.data(), &most, &info);
        T* r = call.out[1].as<T>() + b * d.k * d.n;
        for (int64_t i = 0; i < d.k; ++i)
          for (int64_t j = 0; j < d.n; ++j)
            r[i * d.n + j] = j < i ? T(0) : columns[static_cast<size_t>(j * d.m + i)];
        routines.orgqr(&m, &k, &reflections, columns.data(), &lda, tau.data(), work.data(), &most,
                       &info);
        transpose_into(columns.data(), d.k, d.m, call.out[0].as<T>() + b * d.m * d.k);
      }
    });
  });
}

/// As dense::qr; where there is nothing to reflect in a lane, its factor is 0.
template <class T>
void qr_lanes(const Problem& d, Lanes<T>* a, Lanes<T>* q, Lanes<T>* r, Lanes<T>* tau) {
  const int64_t n = d.n;
  const int64_t count = std::min(d.m, n);
  for (int64_t j = 0; j < count; ++j) {
    const Lanes<T> alpha = a[j * n + j];
    Lanes<T> below{};
    for (int64_t i = j + 1; i < d.m; ++i) below += a[i * n + j] * a[i * n + j];
    const LaneMask<T> none = below == 0;
    const Lanes<T> length = sqrt(alpha * alpha + below);
    const Lanes<T> beta = none ? alpha : copysign(length, -alpha);
    const Lanes<T> safe = none ? Lanes<T>{} + 1 : beta;
    tau[j] = none ? Lanes<T>{} : (beta - alpha) / safe;
    const Lanes<T> scale = none ? Lanes<T>{} : 1 / (none ? Lanes<T>{} + 1 : alpha - beta);
    for (int64_t i = j + 1; i < d.m; ++i) a[i * n + j] *= scale;
    a[j * n + j] = beta;
    for (int64_t k = j + 1; k < n; ++k) {
      Lanes<T> sum = a[j * n + k];
      for (int64_t i = j + 1; i < d.m; ++i) sum += a[i * n + j] * a[i * n + k];
      sum *= tau[j];
      a[j * n + k] -= sum;
      for (int64_t i = j + 1; i < d.m; ++i) a[i * n + k] -= sum * a[i * n + j];
    }
  }
  for (int64_t i = 0; i < d.k; ++i)
    for (int64_t k = 0; k < n; ++k) r[i * n + k] = k >= i ? a[i * n + k] : Lanes<T>{};
  for (int64_t i = 0; i < d.m; ++i)
    for (int64_t k = 0; k < d.k; ++k) q[i * d.k + k] = Lanes<T>{} + (i == k ? T(1) : T(0));
  for (int64_t j = count - 1; j >= 0; --j)
    for (int64_t k = j; k < d.k; ++k) {
      Lanes<T> sum = q[j * d.k + k];
      for (int64_t i = j + 1; i < d.m; ++i) sum += a[i * n + j] * q[i * d.k + k];
      sum *= tau[j];
      q[j * d.k + k] -= sum;
      for (int64_t i = j + 1; i < d.m; ++i) q[i * d.k + k] -= sum * a[i * n + j];
    }
}

void run_lanes(const QrParams&, const Call& call) {
  const Problem d(call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    if constexpr (!kIsComplex<T>)
      for_lanes<T>(d.count, d.work(), [&](int64_t begin, int64_t end) {
        LaneBuffer<T> a(d.m * d.n);
        LaneBuffer<T> q(d.m * d.k);
        LaneBuffer<T> r(d.k * d.n);
        LaneBuffer<T> tau(std::min(d.m, d.n));
        for (int64_t first = begin * kLanes<T>; first < std::min(end * kLanes<T>, d.count);
             first += kLanes<T>) {
          load_lanes(call.in[0].as<T>(), d.count, first, d.m * d.n, a.data());
          qr_lanes<T>(d, a.data(), q.data(), r.data(), tau.data());
          store_lanes(q.data(), call.out[0].as<T>(), d.count, first, d.m * d.k);
          store_lanes(r.data(), call.out[1].as<T>(), d.count, first, d.k * d.n);
        }
      });
  });
}

Support supports_lapack(const QrParams&, const Specs& s) { return supports_lapack_sizes(s, {0}); }
Support supports_batched(const QrParams&, const Specs& s) {
  const Shape& a = s.in[0].shape;
  return supports_lanes(s, std::max(rows_of(a), columns_of(a)), {0});
}
Support supports_reference(const QrParams&, const Specs&) {
  return Support::yes().with_contiguous({0});
}

}  // namespace

Qr qr(const Tensor& a, QrMode mode) {
  const Outputs out = dispatch(qr_op(), QrParams{mode == QrMode::complete}, {a});
  if (mode == QrMode::r) return {zeros({0}, {a.dtype(), a.device()}), out[1]};
  return {out[0], out[1]};
}

}  // namespace linalg

const OpDef& qr_op() {
  using namespace linalg;
  using P = QrParams;
  static OpDef def =
      Op<P>("qr")
          .inputs({"a"})
          .outputs({"q", "r"})
          .dtypes(kMatrixDTypes)
          .precision(Precision::f32)
          .infer<infer>()
          .vjp<vjp>({.out = {0, 1}})
          .cpu({kernel<supports_batched, run_lanes>("batched"),
                kernel<supports_lapack, prepare_lapack<P>, run_lapack<run_blas, P>>("lapack"),
                kernel<supports_reference, run_reference>("reference")})
          .build();
  return def;
}

}  // namespace mica

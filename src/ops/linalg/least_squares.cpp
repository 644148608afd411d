// What singular values decide: ranks, generalised inverses, least squares.
#include "mica/autograd/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/triangular.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/where/where.h"

namespace mica::linalg {
namespace {

double epsilon_of(DType t) {
  return real_dtype(t) == DType::f64 ? std::numeric_limits<double>::epsilon()
                                     : std::numeric_limits<float>::epsilon();
}

double default_rtol(const Tensor& a) {
  return static_cast<double>(std::max(rows_of(a.shape()), columns_of(a.shape()))) *
         epsilon_of(a.dtype());
}

/// Which of the values (…, k), sizes of singular or eigenvalues, count; those of a matrix without
/// any are none.
Tensor counted(const Tensor& a, const Tensor& sizes, const RankOptions& o) {
  const double atol = o.atol.value_or(0);
  const double rtol = o.rtol.value_or(atol > 0 ? 0 : default_rtol(a));
  if (sizes.shape().back() == 0) return gt(sizes, 0);
  return gt(sizes, maximum(max(sizes, {-1}, true) * rtol, atol));
}

Tensor reciprocal_where(const Tensor& used, const Tensor& x) {
  return where(used, 1.0 / where(used, x, 1.0), 0.0);
}

Tensor pinv_of_values(const Tensor& a, const RankOptions& o) {
  if (o.hermitian) {
    const Eigen e = eigh(a);
    const Tensor scaled =
        e.eigenvectors *
        unsqueeze(reciprocal_where(counted(a, abs(e.eigenvalues), o), e.eigenvalues), -2);
    return mica::matmul(scaled, adjoint(e.eigenvectors));
  }
  const Svd d = svd(a, false);
  const Tensor scaled = adjoint(d.vh) * unsqueeze(reciprocal_where(counted(a, d.s, o), d.s), -2);
  return mica::matmul(scaled, adjoint(d.u));
}

/// Golub and Pereyra's derivative, which needs no singular values to be apart from each other.
Tensor pinv_vjp(const Tensor& a, const Tensor& p, const Tensor& g) {
  using mica::matmul;
  const Tensor ph = adjoint(p);
  const Tensor gh = adjoint(g);
  if (rows_of(a.shape()) <= columns_of(a.shape())) {
    const Tensor k = matmul(gh, p);
    const Tensor kph = matmul(k, ph);
    return kph - adjoint(matmul(p, k)) - matmul(matmul(a, p), kph) +
           matmul(matmul(ph, p), gh - matmul(k, a));
  }
  const Tensor k = matmul(p, gh);
  const Tensor phk = matmul(ph, k);
  return phk - adjoint(matmul(k, p)) + matmul(gh - matmul(a, k), matmul(p, ph)) -
         matmul(matmul(phk, p), a);
}

}  // namespace

Tensor pinv(const Tensor& a, const RankOptions& options) {
  check_matrix("linalg.pinv", a.spec());
  if (options.hermitian) check_square("linalg.pinv", a.spec());
  return call_function(
      "linalg.pinv", {a},
      [&](FunctionContext& c) -> Tensors {
        const Tensor p = pinv_of_values(a, options);
        c.save({a, p});
        return {p};
      },
      [](FunctionContext& c, const Tensors& g) -> Tensors {
        const Tensors saved = c.saved();
        return {pinv_vjp(saved[0], saved[1], g[0])};
      })[0];
}

Tensor matrix_rank(const Tensor& a, const RankOptions& options) {
  check_matrix("linalg.matrix_rank", a.spec());
  const Tensor x = a.detach();
  const Tensor sizes = options.hermitian ? abs(eigvalsh(x)) : svdvals(x);
  return sum(counted(a, sizes, options), {-1});
}

Lstsq lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond,
            std::optional<LstsqDriver> driver) {
  check_matrix("linalg.lstsq", a.spec());
  check<ShapeError>(b.rank() >= 1, "linalg.lstsq: B must be a vector or matrices, got a number");
  const bool vectors =
      b.rank() == a.rank() - 1 && b.shape() == with(batch_of(a.shape()), {rows_of(a.shape())});
  const Tensor right = vectors ? unsqueeze(b, -1) : b;
  check_matrix("linalg.lstsq", right.spec());
  const int64_t m = rows_of(a.shape());
  const int64_t n = columns_of(a.shape());
  check<ShapeError>(rows_of(right.shape()) == m,
                    "linalg.lstsq: B must be (…, {}, k) for A {}, got {}", m, a.shape(), b.shape());
  const LstsqDriver way = driver.value_or(LstsqDriver::gelsy);
  const Tensor none = zeros({0}, {real_dtype(a.dtype()), a.device()});
  Lstsq out{{}, none, zeros({0}, {DType::i64, a.device()}), none};
  if (way == LstsqDriver::gels) {
    if (m >= n) {
      const Qr f = qr(a);
      out.solution = solve_upper(f.r, mica::matmul(adjoint(f.q), right), {.left = true});
    } else {
      const Qr f = qr(adjoint(a));
      out.solution = mica::matmul(f.q, solve_upper(f.r, right, {.left = true, .adjoint = true}));
    }
  } else {
    const RankOptions cut{.atol = {}, .rtol = rcond, .hermitian = false};
    out.solution = mica::matmul(pinv(a, cut), right);
    const Tensor s = svdvals(a.detach());
    out.rank = sum(counted(a, s, cut), {-1});
    if (way != LstsqDriver::gelsy) out.singular_values = s;
  }
  if (m > n) {
    // Where the rank is not full there are several solutions, and LAPACK gives no residuals: they
    // are the same for all of them here.
    const Tensor apart = right - mica::matmul(a, out.solution);
    out.residuals = sum(square(abs(apart)), {-2});
    if (vectors) out.residuals = squeeze(out.residuals, {-1});
  }
  if (vectors) out.solution = squeeze(out.solution, {-1});
  return out;
}

}  // namespace mica::linalg

#include <complex>

#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/kernels.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/params.h"
#include "mica/ops/linalg/triangular.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/triangle/triangle.h"

namespace mica {
namespace linalg {
namespace {

void infer(const CholeskyParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check_square("linalg.cholesky", in[0]);
  add_dense(out, in[0].shape, in[0].dtype);
  add_dense(out, batch_of(in[0].shape), DType::i32);
}

/// A = L Lᴴ: Lᴴ gL loses what is above its diagonal, and half of that itself.
Tensors vjp(const CholeskyParams&, const VjpArgs& a) {
  const Tensor& l = a.out[0];
  const Tensor product = mica::matmul(adjoint(l), a.grad[0]);
  const Tensor lower = (tril(product) + tril(product, -1)) * 0.5;
  const Tensor left = solve_lower(l, lower, {.left = true, .adjoint = true});
  const Tensor g = solve_lower(l, left, {.left = false});
  return {(g + adjoint(g)) * 0.5};
}

template <class T>
void cholesky_lanes(int64_t n, Lanes<T>* a, LaneMask<T>& info) {
  for (int64_t j = 0; j < n; ++j) {
    Lanes<T>* row = a + j * n;
    Lanes<T> d = row[j];
    for (int64_t k = 0; k < j; ++k) d -= row[k] * row[k];
    const LaneMask<T> positive = d > 0;
    info = (info == 0) & ~positive ? lane_numbers<T>(j + 1) : info;
    const Lanes<T> root = sqrt(d);
    const Lanes<T> inverse = 1 / root;
    row[j] = root;
    for (int64_t i = j + 1; i < n; ++i) {
      Lanes<T>* below = a + i * n;
      Lanes<T> sum = below[j];
      for (int64_t k = 0; k < j; ++k) sum -= below[k] * row[k];
      below[j] = sum * inverse;
    }
    for (int64_t k = j + 1; k < n; ++k) row[k] = Lanes<T>{};
  }
}

struct Cholesky : MatrixOp<CholeskyParams> {
  using MatrixOp::MatrixOp;
  double work() const { return cube(n); }

  template <class T>
  auto by_reference() const {
    return [this](int64_t b) {
      auto a = widened(in<T>(0, b), n * n);
      *out<int32_t>(1, b) = dense::cholesky(n, a.data());
      store(a, out<T>(0, b));
    };
  }
  /// The lower triangle of what lies row-major is the upper one of what LAPACK sees.
  template <class T>
  auto by_lapack() const {
    return [this](int64_t b) {
      const T* from = in<T>(0, b);
      T* to = out<T>(0, b);
      for (int64_t i = 0; i < n; ++i) {
        std::copy(from + i * n, from + i * n + i + 1, to + i * n);
        std::fill(to + i * n + i + 1, to + i * n + n, T(0));
      }
      const int size = static_cast<int>(n);
      int32_t& info = *out<int32_t>(1, b);
      lapack().of<T>().potrf("U", &size, to, &size, &info, 1);
      // Not every LAPACK looks for NaN.
      for (int64_t j = 0; info == 0 && j < n; ++j)
        if (!(std::real(to[j * n + j]) > 0)) info = static_cast<int32_t>(j + 1);
    };
  }
  template <class T>
  auto in_lanes() const {
    return [this, a = LaneBuffer<T>(n * n)](int64_t first) mutable {
      LaneMask<T> info{};
      fill_lanes(0, first, a);
      cholesky_lanes<T>(n, a.data(), info);
      take_lanes(a, 0, first);
      take_numbers<T>(info, 1, first);
    };
  }
  void check_results() const {
    if (p.check) check_infos(Failure::cholesky, call.out[1].as<int32_t>(), count);
  }
};

}  // namespace
}  // namespace linalg

const OpDef& cholesky_op() {
  using namespace linalg;
  static OpDef def = Op<CholeskyParams>("cholesky")
                         .inputs({"a"})
                         .outputs({"l", "info"})
                         .dtypes(kMatrixDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp>({.out = {0}})
                         .cpu(matrix_kernels<Cholesky>())
                         .build();
  return def;
}

namespace linalg {

CholeskyEx cholesky_ex(const Tensor& a, bool upper, bool check_errors) {
  check_square("linalg.cholesky", a.spec());
  const Outputs out =
      dispatch(cholesky_op(), CholeskyParams{check_errors}, {upper ? adjoint(a) : a});
  return {upper ? adjoint(out[0]) : out[0], out[1]};
}

Tensor cholesky(const Tensor& a, bool upper) { return cholesky_ex(a, upper, true).l; }

Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper) {
  check_square("cholesky_solve", l.spec());
  const TriangularOptions left{};
  if (upper) return solve_triangular(l, solve_triangular(adjoint(l), b, false, left), true, left);
  return solve_triangular(adjoint(l), solve_triangular(l, b, false, left), true, left);
}

Tensor cholesky_inverse(const Tensor& l, bool upper) {
  check_square("cholesky_inverse", l.spec());
  return cholesky_solve(eye_like(l, columns_of(l.shape())), l, upper);
}

}  // namespace linalg
}  // namespace mica

#include "mica/autograd/function.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/kernels.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

const OpDef& cofactor_op();

namespace linalg {
namespace {

/// U's diagonal, an element turned round for each exchange of rows; (n, …), so that calls go along
/// many small matrices.
Tensor signed_diagonal(const LuFactorEx& f) {
  const Tensor d = movedim(diagonal_of(f.lu), {-1}, {0});
  const Tensor pivots = movedim(f.pivots, {-1}, {0});
  Shape column = Shape::filled(pivots.rank(), 1);
  column[0] = pivots.shape()[0];
  const Tensor own = reshape(arange(1, column[0] + 1, 1, {DType::i32, d.device()}), column);
  return where(eq(pivots, own), d, -d);
}

Tensor det_by_lu(const Tensor& a) {
  return prod(signed_diagonal(lu_factor_ex(a, true, false)), {0});
}

/// The adjugate's conjugate transpose: how the determinant changes with each element.
void infer(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check_square("linalg.det", in[0]);
  add_dense(out, in[0].shape, in[0].dtype);
}

/// det(A) A⁻ᴴ, which is right where A can be inverted.
Tensors composition(const NoParams&, std::span<const Tensor> in) {
  const Tensor d = unsqueeze(unsqueeze(det_by_lu(in[0]), -1), -1);
  return {conj(d) * adjoint(inv_ex(in[0], false).inverse)};
}

/// U diag(products of the other singular values) Vᴴ times det(U Vᴴ): of singular matrices too.
template <class S>
std::vector<S> cofactor_by_svd(int64_t n, const std::vector<S>& a) {
  std::vector<double> s;
  dense::Matrix<S> u;
  dense::Matrix<S> vh;
  dense::svd(n, n, a.data(), false, u, s, vh);
  const auto at = [n](int64_t i, int64_t j) { return static_cast<size_t>(i * n + j); };
  std::vector<S> turn(a.size());
  std::vector<S> result(a.size());
  for (int64_t k = 0; k < n; ++k) {
    double others = 1;
    for (int64_t j = 0; j < n; ++j) others *= j == k ? 1 : s[static_cast<size_t>(j)];
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        turn[at(i, j)] += u[at(i, k)] * vh[at(k, j)];
        result[at(i, j)] += u[at(i, k)] * others * vh[at(k, j)];
      }
  }
  std::vector<int32_t> pivots(static_cast<size_t>(n));
  dense::lu(n, n, turn.data(), pivots.data());
  S sign = 1;
  for (int64_t i = 0; i < n; ++i)
    sign *= turn[at(i, i)] * (pivots[static_cast<size_t>(i)] == i + 1 ? 1.0 : -1.0);
  // Of a complex matrix the factor is the conjugate of det(U Vᴴ), which is a number of size 1.
  if constexpr (kIsComplex<S>) sign = std::conj(sign);
  for (S& value : result) value *= sign;
  return result;
}

struct CofactorOp : MatrixOp<NoParams> {
  using MatrixOp::MatrixOp;
  double work() const { return 20 * cube(n); }

  template <class T>
  auto by_reference() const {
    return
        [this](int64_t b) { store(cofactor_by_svd(n, widened(in<T>(0, b), n * n)), out<T>(0, b)); };
  }
};

}  // namespace

Tensor det(const Tensor& a) {
  check_square("linalg.det", a.spec());
  return call_function(
      "linalg.det", {a},
      [&](FunctionContext& c) -> Tensors {
        c.save({a});
        return {det_by_lu(a)};
      },
      [](FunctionContext& c, const Tensors& g) -> Tensors {
        const Tensor cofactors = dispatch(cofactor_op(), NoParams{}, {c.saved()[0]})[0];
        return {unsqueeze(unsqueeze(g[0], -1), -1) * cofactors};
      })[0];
}

SlogDet slogdet(const Tensor& a) {
  check_square("linalg.slogdet", a.spec());
  const Tensor u = signed_diagonal(lu_factor_ex(a, true, false));
  // A real sign does not change; a complex one turns with the matrix.
  return {prod(sign(is_complex(u.dtype()) ? u : u.detach()), {0}), sum(log(abs(u)), {0})};
}

Tensor logdet(const Tensor& a) {
  const SlogDet d = slogdet(a);
  if (is_complex(a.dtype())) return complex(d.logabsdet, angle(d.sign));
  return where(lt(d.sign, 0), std::numeric_limits<double>::quiet_NaN(), d.logabsdet);
}

}  // namespace linalg

const OpDef& cofactor_op() {
  using namespace linalg;
  static OpDef def = Op<NoParams>("cofactor")
                         .inputs({"a"})
                         .dtypes(kMatrixDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp_by<composition, NoParams>>({.in = {0}})
                         .cpu(matrix_kernels<CofactorOp>())
                         .build();
  return def;
}

}  // namespace mica

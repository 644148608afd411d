#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/eig_rows.h"
#include "mica/ops/linalg/kernels.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/params.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

const OpDef& eig_op();

namespace linalg {
namespace {

void infer(const EigParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_square("linalg.eig", in[0]);
  const Shape& a = in[0].shape;
  const DType dtype = complex_dtype(in[0].dtype);
  add_dense(out, with(batch_of(a), {columns_of(a)}), dtype);
  add_dense(out, p.vectors ? a : Shape{0}, dtype);
}

/// A = V diag(l) V⁻¹ with vectors of length 1. Where eigenvalues are equal a gradient through their
/// vectors is infinite or NaN; one through the values is right as long as there are n vectors.
Tensors vjp(const EigParams& p, const VjpArgs& a) {
  Tensor v = a.out[1];
  const Tensor& l = a.out[0];
  if (!p.vectors) v = dispatch(eig_op(), EigParams{true}, {a.in[0]})[1];
  const Tensor vh = adjoint(v);
  Tensor middle;
  if (a.grad[0].defined()) middle = diagonal_matrix(a.grad[0]);
  if (p.vectors && a.grad[1].defined()) {
    const Tensor one = eye_like(real(l), l.shape().back());
    const Tensor apart = conj(unsqueeze(l, -2) - unsqueeze(l, -1)) + one;
    const Tensor along = mica::matmul(vh, a.grad[1]);
    // A change of a vector's length is taken back.
    const Tensor lengths = unsqueeze(real(diagonal_of(along)), -2);
    const Tensor turned = (along - mica::matmul(vh, v * lengths)) * (1.0 - one) / apart;
    middle = middle.defined() ? middle + turned : turned;
  }
  const Tensor g = solve_ex(vh, mica::matmul(middle, vh)).result;
  return {is_complex(a.in[0].dtype()) ? g : real(g)};
}

struct EigOp : MatrixOp<EigParams> {
  using MatrixOp::MatrixOp;
  static constexpr int64_t kLargestByRows = 128;
  double work() const { return 25 * cube(n); }

  template <class T>
  void check_input() const {
    check_finite(Failure::eig, call.in[0].as<T>(), count * n * n);
  }
  template <class T>
  auto by_reference() const {
    return [this, values = std::vector<std::complex<double>>(),
            vectors = dense::Matrix<std::complex<double>>()](int64_t b) mutable {
      const std::vector<std::complex<double>> a(in<T>(0, b), in<T>(0, b) + n * n);
      check_converged(Failure::eig, dense::eig(n, a.data(), values, vectors), b, count);
      store(values, out<Number<T>>(0, b));
      if (p.vectors) store(vectors, out<Number<T>>(1, b));
    };
  }
  template <class T>
  auto by_lapack() const {
    return [this, a = std::vector<T>(static_cast<size_t>(n * n)),
            vectors = std::vector<Number<T>>(static_cast<size_t>(p.vectors ? n * n : 0))](
               int64_t b) mutable {
      transpose_into(in<T>(0, b), n, n, a.data());
      const int info = geev(static_cast<int>(n), a.data(), out<Number<T>>(0, b),
                            p.vectors ? vectors.data() : nullptr);
      check_converged(Failure::eig, info == 0, b, count);
      if (p.vectors) transpose_into(vectors.data(), n, n, out<Number<T>>(1, b));
    };
  }
  template <class T>
  auto by_rows() const {
    return [this, compute = EigByRows<T>(n)](int64_t b) mutable {
      const bool done =
          compute(in<T>(0, b), out<Number<T>>(0, b), p.vectors ? out<Number<T>>(1, b) : nullptr);
      check_converged(Failure::eig, done, b, count);
    };
  }

 private:
  /// What eigenvalues are.
  template <class T>
  using Number = std::complex<Real<T>>;
};

}  // namespace

Eigen eig(const Tensor& a) {
  const Outputs out = dispatch(eig_op(), EigParams{true}, {a});
  return {out[0], out[1]};
}
Tensor eigvals(const Tensor& a) { return dispatch(eig_op(), EigParams{false}, {a})[0]; }

}  // namespace linalg

const OpDef& eig_op() {
  using namespace linalg;
  static OpDef def = Op<EigParams>("eig")
                         .inputs({"a"})
                         .outputs({"eigenvalues", "eigenvectors"})
                         .dtypes(kMatrixDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp>({.in = {0}, .out = {0, 1}})
                         .cpu(matrix_kernels<EigOp>())
                         .build();
  return def;
}

}  // namespace mica

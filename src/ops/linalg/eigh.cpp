#include <numeric>

#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/eigh_rows.h"
#include "mica/ops/linalg/jacobi_lanes.h"
#include "mica/ops/linalg/kernels.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/params.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

const OpDef& eigh_op();

namespace linalg {
namespace {

void infer(const EighParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_square("linalg.eigh", in[0]);
  const Shape& a = in[0].shape;
  add_dense(out, with(batch_of(a), {columns_of(a)}), real_dtype(in[0].dtype));
  add_dense(out, p.vectors ? a : Shape{0}, in[0].dtype);
}

/// A = V diag(l) Vᴴ. Where eigenvalues are equal their vectors are not determined, and a gradient
/// through them is infinite or NaN; one through the values alone is right.
Tensors vjp(const EighParams& p, const VjpArgs& a) {
  Tensor v = a.out[1];
  const Tensor& l = a.out[0];
  if (!p.vectors) v = dispatch(eigh_op(), EighParams{true}, {a.in[0]})[1];
  Tensor middle;
  if (a.grad[0].defined()) middle = diagonal_matrix(a.grad[0]);
  if (p.vectors && a.grad[1].defined()) {
    const Tensor one = eye_like(l, l.shape().back());
    const Tensor apart = (unsqueeze(l, -2) - unsqueeze(l, -1)) + one;
    const Tensor turned = mica::matmul(adjoint(v), a.grad[1]) * (1.0 - one) / apart;
    middle = middle.defined() ? middle + turned : turned;
  }
  const Tensor g = mica::matmul(mica::matmul(v, middle), adjoint(v));
  return {(g + adjoint(g)) * 0.5};
}

struct EighOp : MatrixOp<EighParams> {
  using MatrixOp::MatrixOp;
  static constexpr int64_t kLargestByRows = 96;
  double work() const { return 20 * cube(n); }

  template <class T>
  void check_input() const {
    check_finite(Failure::eigh, call.in[0].as<T>(), count * n * n);
  }
  template <class T>
  auto by_reference() const {
    return [this, values = std::vector<double>(),
            vectors = dense::Matrix<Wide<T>>()](int64_t b) mutable {
      const auto a = widened(in<T>(0, b), n * n);
      check_converged(Failure::eigh, dense::eigh(n, a.data(), values, vectors), b, count);
      store(values, out<Real<T>>(0, b));
      if (p.vectors) store(vectors, out<T>(1, b));
    };
  }
  template <class T>
  auto by_lapack() const {
    return [this, a = std::vector<T>(static_cast<size_t>(n * n))](int64_t b) mutable {
      // Transposed, so that a complex matrix is not conjugated; the lower triangle stays that.
      transpose_into(in<T>(0, b), n, n, a.data());
      const int info = heevd(p.vectors, 'L', static_cast<int>(n), a.data(), out<Real<T>>(0, b));
      check_converged(Failure::eigh, info == 0, b, count);
      if (p.vectors) transpose_into(a.data(), n, n, out<T>(1, b));
    };
  }
  template <class T>
  auto by_rows() const {
    return [this, compute = EighByRows<T>(n)](int64_t b) mutable {
      const bool done = compute(in<T>(0, b), out<T>(0, b), p.vectors ? out<T>(1, b) : nullptr);
      check_converged(Failure::eigh, done, b, count);
    };
  }
  template <class T>
  auto in_lanes() const {
    return [this, a = LaneBuffer<T>(n * n), v = LaneBuffer<T>(n * n)](int64_t first) mutable {
      fill_lanes(0, first, a);
      check_converged(Failure::eigh, eigh_lanes<T>(n, a.data(), v.data()), first, count);
      for (int l = 0; l < used_lanes<T>(first); ++l)
        store_sorted<T>(first + l, l, a.data(), v.data());
    };
  }

 private:
  template <class T>
  void store_sorted(int64_t at, int lane, const Lanes<T>* a, const Lanes<T>* v) const {
    std::array<int, kLargestInLanes> order;
    std::iota(order.begin(), order.begin() + n, 0);
    std::stable_sort(order.begin(), order.begin() + n,
                     [&](int i, int j) { return a[i * (n + 1)][lane] < a[j * (n + 1)][lane]; });
    for (int64_t c = 0; c < n; ++c) {
      const int64_t from = order[static_cast<size_t>(c)];
      out<T>(0, at)[c] = a[from * (n + 1)][lane];
      if (!p.vectors) continue;
      T* to = out<T>(1, at) + c;
      for (int64_t i = 0; i < n; ++i) to[i * n] = v[from * n + i][lane];
    }
  }
};

Tensor lower_of(const Tensor& a, Uplo uplo) {
  check_square("linalg.eigh", a.spec());
  return uplo == Uplo::lower ? a : adjoint(a);
}

}  // namespace

Eigen eigh(const Tensor& a, Uplo uplo) {
  const Outputs out = dispatch(eigh_op(), EighParams{true}, {lower_of(a, uplo)});
  return {out[0], out[1]};
}
Tensor eigvalsh(const Tensor& a, Uplo uplo) {
  return dispatch(eigh_op(), EighParams{false}, {lower_of(a, uplo)})[0];
}

}  // namespace linalg

const OpDef& eigh_op() {
  using namespace linalg;
  static OpDef def = Op<EighParams>("eigh")
                         .inputs({"a"})
                         .outputs({"eigenvalues", "eigenvectors"})
                         .dtypes(kMatrixDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp>({.in = {0}, .out = {0, 1}})
                         .cpu(matrix_kernels<EighOp>())
                         .build();
  return def;
}

}  // namespace mica

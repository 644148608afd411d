#include <numeric>

#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/jacobi_lanes.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

const OpDef& eigh_op();

namespace linalg {
namespace {

struct EighParams {
  bool vectors = true;  ///< else the second output is empty

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("vectors", self.vectors);
  }
};

void infer(const EighParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_square("linalg.eigh", in[0]);
  const Shape& a = in[0].shape;
  add_dense(out, with(batch_of(a), {columns_of(a)}), in[0].dtype);
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

void check_converged(bool converged, int64_t at, int64_t count) {
  if (!converged) fail_matrix("eigh", at, count, "the iteration does not converge");
}

void run_reference(const EighParams& p, const Call& call) {
  const int64_t n = columns_of(call.in[0].shape());
  const int64_t count = matrices_in(call.in[0].shape());
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    check_finite("eigh", call.in[0].as<T>(), count * n * n);
    for_matrices(count, 10 * cube(n), [&](int64_t begin, int64_t end) {
      std::vector<double> values;
      dense::Matrix<Wide<T>> vectors;
      for (int64_t b = begin; b < end; ++b) {
        const auto a = widened(call.in[0].as<T>() + b * n * n, n * n);
        check_converged(dense::eigh(n, a.data(), values, vectors), b, count);
        store(values, call.out[0].as<Real<T>>() + b * n);
        if (p.vectors) store(vectors, call.out[1].as<T>() + b * n * n);
      }
    });
  });
}

void run_blas(const EighParams& p, const Call& call) {
  const int64_t n = columns_of(call.in[0].shape());
  const int64_t count = matrices_in(call.in[0].shape());
  if (n == 0) return;
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    check_finite("eigh", call.in[0].as<T>(), count * n * n);
    for_matrices(count, 10 * cube(n), [&](int64_t begin, int64_t end) {
      std::vector<T> a(static_cast<size_t>(n * n));
      for (int64_t b = begin; b < end; ++b) {
        // Transposed, so that a complex matrix is not conjugated; the lower triangle stays that.
        transpose_into(call.in[0].as<T>() + b * n * n, n, n, a.data());
        const int info =
            heevd(p.vectors, 'L', static_cast<int>(n), a.data(), call.out[0].as<Real<T>>() + b * n);
        check_converged(info == 0, b, count);
        if (p.vectors) transpose_into(a.data(), n, n, call.out[1].as<T>() + b * n * n);
      }
    });
  });
}

template <class T>
void store_sorted(const EighParams& p, const Call& call, int64_t n, int64_t at, int lane,
                  const Lanes<T>* a, const Lanes<T>* v) {
  std::array<int, kLargestInLanes> order;
  std::iota(order.begin(), order.begin() + n, 0);
  std::stable_sort(order.begin(), order.begin() + n,
                   [&](int i, int j) { return a[i * (n + 1)][lane] < a[j * (n + 1)][lane]; });
  for (int64_t k = 0; k < n; ++k) {
    const int64_t from = order[static_cast<size_t>(k)];
    call.out[0].as<T>()[at * n + k] = a[from * (n + 1)][lane];
    if (!p.vectors) continue;
    T* to = call.out[1].as<T>() + at * n * n + k;
    for (int64_t i = 0; i < n; ++i) to[i * n] = v[from * n + i][lane];
  }
}

void run_lanes(const EighParams& p, const Call& call) {
  const int64_t n = columns_of(call.in[0].shape());
  const int64_t count = matrices_in(call.in[0].shape());
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    check_finite("eigh", call.in[0].as<T>(), count * n * n);
    if constexpr (!kIsComplex<T>)
      for_lanes<T>(count, 20 * cube(n), [&](int64_t begin, int64_t end) {
        LaneBuffer<T> a(n * n);
        LaneBuffer<T> v(n * n);
        for (int64_t first = begin * kLanes<T>; first < std::min(end * kLanes<T>, count);
             first += kLanes<T>) {
          load_lanes(call.in[0].as<T>(), count, first, n * n, a.data());
          check_converged(eigh_lanes<T>(n, a.data(), v.data()), first, count);
          for (int l = 0; l < std::min<int64_t>(kLanes<T>, count - first); ++l)
            store_sorted<T>(p, call, n, first + l, l, a.data(), v.data());
        }
      });
  });
}

Support supports_lapack(const EighParams&, const Specs& s) { return supports_lapack_sizes(s, {0}); }
Support supports_batched(const EighParams&, const Specs& s) {
  return supports_lanes(s, columns_of(s.in[0].shape), {0});
}
Support supports_reference(const EighParams&, const Specs&) {
  return Support::yes().with_contiguous({0});
}

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
  using P = EighParams;
  static OpDef def =
      Op<P>("eigh")
          .inputs({"a"})
          .outputs({"eigenvalues", "eigenvectors"})
          .dtypes(kMatrixDTypes)
          .precision(Precision::f32)
          .infer<infer>()
          .vjp<vjp>({.in = {0}, .out = {0, 1}})
          .cpu({kernel<supports_batched, run_lanes>("batched"),
                kernel<supports_lapack, prepare_lapack<P>, run_lapack<run_blas, P>>("lapack"),
                kernel<supports_reference, run_reference>("reference")})
          .build();
  return def;
}

}  // namespace mica

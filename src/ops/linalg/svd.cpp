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

const OpDef& svd_op();

namespace linalg {
namespace {

struct SvdParams {
  bool vectors = true;  ///< else the first and the last output are empty
  bool full = false;    ///< U is (…, m, m) and Vh (…, n, n)

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("vectors", self.vectors);
    f("full", self.full);
  }
};

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
  add_dense(out, with(batch, {k}), in[0].dtype);
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
    const auto skew = [&](const Tensor& x) { return (x - adjoint(x)) / apart; };
    if (gu.defined()) {
      const Tensor along = mica::matmul(adjoint(u), gu);
      middle = sum_of(middle, skew(along) * row);
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

struct Problem {
  int64_t m, n, k, u_columns, vh_rows, count;
  explicit Problem(const SvdParams& p, const Call& call)
      : m(rows_of(call.in[0].shape())),
        n(columns_of(call.in[0].shape())),
        k(std::min(m, n)),
        u_columns(p.full ? m : k),
        vh_rows(p.full ? n : k),
        count(matrices_in(call.in[0].shape())) {}
  double work() const { return 20 * static_cast<double>(m * n) * static_cast<double>(k); }
};

void check_converged(bool converged, int64_t at, int64_t count) {
  if (!converged) fail_matrix("svd", at, count, "the iteration does not converge");
}

template <class T>
void compute_reference(const SvdParams& p, const Problem& d, const Call& call, int64_t b) {
  std::vector<double> s;
  dense::Matrix<Wide<T>> u;
  dense::Matrix<Wide<T>> vh;
  const auto a = widened(call.in[0].as<T>() + b * d.m * d.n, d.m * d.n);
  check_converged(dense::svd(d.m, d.n, a.data(), p.full, u, s, vh), b, d.count);
  store(s, call.out[1].as<Real<T>>() + b * d.k);
  if (!p.vectors) return;
  store(u, call.out[0].as<T>() + b * d.m * d.u_columns);
  store(vh, call.out[2].as<T>() + b * d.vh_rows * d.n);
}

void run_reference(const SvdParams& p, const Call& call) {
  const Problem d(p, call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    check_finite("svd", call.in[0].as<T>(), d.count * d.m * d.n);
    for_matrices(d.count, d.work(), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) compute_reference<T>(p, d, call, b);
    });
  });
}

/// What lies row-major is Aᵀ = V̄ diag(s) Uᵀ to LAPACK: its U is our Vh where that lies, and its Vᴴ
/// our U.
void run_blas(const SvdParams& p, const Call& call) {
  const Problem d(p, call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    check_finite("svd", call.in[0].as<T>(), d.count * d.m * d.n);
    for_matrices(d.count, d.work(), [&](int64_t begin, int64_t end) {
      std::vector<T> a(static_cast<size_t>(d.m * d.n));
      T none{};
      for (int64_t b = begin; b < end; ++b) {
        if (d.k == 0) {
          compute_reference<T>(p, d, call, b);
          continue;
        }
        std::copy_n(call.in[0].as<T>() + b * d.m * d.n, d.m * d.n, a.data());
        T* u = p.vectors ? call.out[0].as<T>() + b * d.m * d.u_columns : &none;
        T* vh = p.vectors ? call.out[2].as<T>() + b * d.vh_rows * d.n : &none;
        const int info = gesdd(p.vectors ? (p.full ? 'A' : 'S') : 'N', static_cast<int>(d.n),
                               static_cast<int>(d.m), a.data(), call.out[1].as<Real<T>>() + b * d.k,
                               vh, static_cast<int>(d.n), u, static_cast<int>(d.u_columns));
        check_converged(info == 0, b, d.count);
      }
    });
  });
}

/// Of one lane: `rows` (k, longer) are the long singular vectors times their values, v (k, k) the
/// short ones. False where a value is zero but for rounding: its vector must be made up.
template <class T>
bool store_lane(const SvdParams& p, const Problem& d, const Call& call, int64_t b, int lane,
                const Lanes<T>* rows, const Lanes<T>* v) {
  const int64_t longer = std::max(d.m, d.n);
  std::array<T, kLargestInLanes> lengths{};
  std::array<int, kLargestInLanes> order{};
  for (int64_t j = 0; j < d.k; ++j) {
    T sum = 0;
    for (int64_t i = 0; i < longer; ++i)
      sum += rows[j * longer + i][lane] * rows[j * longer + i][lane];
    lengths[static_cast<size_t>(j)] = std::sqrt(sum);
  }
  std::iota(order.begin(), order.begin() + d.k, 0);
  std::stable_sort(order.begin(), order.begin() + d.k, [&](int i, int j) {
    return lengths[static_cast<size_t>(i)] > lengths[static_cast<size_t>(j)];
  });
  const T largest = lengths[static_cast<size_t>(order[0])];
  const T least = lengths[static_cast<size_t>(order[static_cast<size_t>(d.k - 1)])];
  if (p.vectors && !(least > largest * std::numeric_limits<T>::epsilon() * 8)) return false;
  if (!(largest < std::sqrt(std::numeric_limits<T>::max()))) return false;
  if (!(largest == 0 || largest > std::sqrt(std::numeric_limits<T>::min()) * 1e3F)) return false;
  for (int64_t j = 0; j < d.k; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    const T length = lengths[static_cast<size_t>(from)];
    call.out[1].as<T>()[b * d.k + j] = length;
    if (!p.vectors) continue;
    T* u = call.out[0].as<T>() + b * d.m * d.k;
    T* vh = call.out[2].as<T>() + b * d.k * d.n;
    const bool tall = d.m >= d.n;
    for (int64_t i = 0; i < longer; ++i) {
      const T value = rows[from * longer + i][lane] / length;
      (tall ? u[i * d.k + j] : vh[j * d.n + i]) = value;
    }
    for (int64_t i = 0; i < d.k; ++i) {
      const T value = v[from * d.k + i][lane];
      (tall ? vh[j * d.n + i] : u[i * d.k + j]) = value;
    }
  }
  return true;
}

void run_lanes(const SvdParams& p, const Call& call) {
  const Problem d(p, call);
  const int64_t longer = std::max(d.m, d.n);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    check_finite("svd", call.in[0].as<T>(), d.count * d.m * d.n);
    if constexpr (!kIsComplex<T>)
      for_lanes<T>(d.count, d.work(), [&](int64_t begin, int64_t end) {
        LaneBuffer<T> a(d.m * d.n);
        LaneBuffer<T> rows(d.m * d.n);
        LaneBuffer<T> v(d.k * d.k);
        for (int64_t first = begin * kLanes<T>; first < std::min(end * kLanes<T>, d.count);
             first += kLanes<T>) {
          load_lanes(call.in[0].as<T>(), d.count, first, d.m * d.n, a.data());
          for (int64_t j = 0; j < d.k; ++j)
            for (int64_t i = 0; i < longer; ++i)
              rows[j * longer + i] = d.m >= d.n ? a[i * d.n + j] : a[j * d.n + i];
          const bool done =
              orthogonalize_lanes<T>(d.k, longer, rows.data(), p.vectors ? v.data() : nullptr);
          for (int l = 0; l < std::min<int64_t>(kLanes<T>, d.count - first); ++l)
            if (!done || !store_lane<T>(p, d, call, first + l, l, rows.data(), v.data()))
              compute_reference<T>(p, d, call, first + l);
        }
      });
  });
}

Support supports_lapack(const SvdParams&, const Specs& s) { return supports_lapack_sizes(s, {0}); }
Support supports_batched(const SvdParams& p, const Specs& s) {
  const Shape& a = s.in[0].shape;
  if (p.full && p.vectors && rows_of(a) != columns_of(a))
    return Support::no("it gives the first min(m, n) singular vectors alone");
  if (numel(a) == 0) return Support::no("the matrices are empty");
  return supports_lanes(s, std::max(rows_of(a), columns_of(a)), {0});
}
Support supports_reference(const SvdParams&, const Specs&) {
  return Support::yes().with_contiguous({0});
}

}  // namespace

Svd svd(const Tensor& a, bool full_matrices) {
  const Outputs out = dispatch(svd_op(), SvdParams{true, full_matrices}, {a});
  return {out[0], out[1], out[2]};
}
Tensor svdvals(const Tensor& a) { return dispatch(svd_op(), SvdParams{false, false}, {a})[1]; }

}  // namespace linalg

const OpDef& svd_op() {
  using namespace linalg;
  using P = SvdParams;
  static OpDef def =
      Op<P>("svd")
          .inputs({"a"})
          .outputs({"u", "s", "vh"})
          .dtypes(kMatrixDTypes)
          .precision(Precision::f32)
          .infer<infer>()
          .vjp<vjp>({.in = {0}, .out = {0, 1, 2}})
          .cpu({kernel<supports_batched, run_lanes>("batched"),
                kernel<supports_lapack, prepare_lapack<P>, run_lapack<run_blas, P>>("lapack"),
                kernel<supports_reference, run_reference>("reference")})
          .build();
  return def;
}

}  // namespace mica

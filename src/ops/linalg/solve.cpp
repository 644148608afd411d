#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/lu.h"
#include "mica/ops/linalg/lu_lanes.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/triangular.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

const OpDef& solve_op();

namespace linalg {
namespace {

struct SolveParams {
  bool check = true;     ///< a singular matrix raises
  bool inverse = false;  ///< b is the unit matrix: how the error names the call

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("check", self.check);
    f("inverse", self.inverse);
  }
};

void infer(const SolveParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check_square("linalg.solve", in[0]);
  check_matrix("linalg.solve", in[1]);
  check<DTypeError>(in[0].dtype == in[1].dtype,
                    "linalg.solve: A and B must have one dtype, got {} and {}", in[0].dtype,
                    in[1].dtype);
  check<ShapeError>(batch_of(in[0].shape) == batch_of(in[1].shape) &&
                        rows_of(in[1].shape) == columns_of(in[0].shape),
                    "linalg.solve: A (…, n, n) and B (…, n, k) do not fit: got {} and {}",
                    in[0].shape, in[1].shape);
  add_dense(out, in[1].shape, in[1].dtype);
  add_dense(out, batch_of(in[0].shape), DType::i32);
}

Tensors vjp(const SolveParams&, const VjpArgs& a) {
  const Tensor gb =
      dispatch(solve_op(), SolveParams{false, false}, {adjoint(a.in[0]), a.grad[0]})[0];
  return {a.needs(0) ? neg(mica::matmul(gb, adjoint(a.out[0]))) : Tensor(), gb};
}

struct Problem {
  int64_t n, k, count;
  explicit Problem(const Call& call)
      : n(columns_of(call.in[0].shape())),
        k(columns_of(call.in[1].shape())),
        count(matrices_in(call.in[0].shape())) {}
  double work() const { return static_cast<double>(n * n) * static_cast<double>(n + 3 * k) / 3; }
};

void raise_errors(const SolveParams& p, const Call& call, int64_t count) {
  if (!p.check) return;
  check_infos(p.inverse ? "inv" : "solve", call.out[1].as<int32_t>(), count,
              [](int) { return std::string("the matrix is singular"); });
}

void run_reference(const SolveParams& p, const Call& call) {
  const Problem d(call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    for_matrices(d.count, d.work(), [&](int64_t begin, int64_t end) {
      std::vector<int32_t> pivots(static_cast<size_t>(d.n));
      for (int64_t i = begin; i < end; ++i) {
        auto a = widened(call.in[0].as<T>() + i * d.n * d.n, d.n * d.n);
        auto b = widened(call.in[1].as<T>() + i * d.n * d.k, d.n * d.k);
        call.out[1].as<int32_t>()[i] = dense::lu(d.n, d.n, a.data(), pivots.data());
        for (int64_t r = 0; r < d.n; ++r) {
          const int64_t other = pivots[static_cast<size_t>(r)] - 1;
          if (other != r)
            std::swap_ranges(b.begin() + r * d.k, b.begin() + (r + 1) * d.k,
                             b.begin() + other * d.k);
        }
        dense::solve_triangular({.unit = true}, a.data(), b.data(), d.n, d.k);
        dense::solve_triangular({.upper = true}, a.data(), b.data(), d.n, d.k);
        store(b, call.out[0].as<T>() + i * d.n * d.k);
      }
    });
  });
  raise_errors(p, call, d.count);
}

/// What lies row-major is Aᵀ to LAPACK: of its factors P L U = Aᵀ the solution is X = P⁻ᵀ L⁻ᵀ U⁻ᵀ
/// B, in which nothing has to be transposed.
void run_blas(const SolveParams& p, const Call& call) {
  const Problem d(call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    for_matrices(d.count, d.work(), [&](int64_t begin, int64_t end) {
      std::vector<T> a(static_cast<size_t>(d.n * d.n));
      std::vector<int32_t> pivots(static_cast<size_t>(d.n));
      const int n = static_cast<int>(d.n);
      const int k = static_cast<int>(d.k);
      const T one = 1;
      const LapackRoutines<T>& routines = lapack().of<T>();
      for (int64_t i = begin; i < end; ++i) {
        int32_t& info = call.out[1].as<int32_t>()[i];
        info = 0;
        if (n == 0) continue;
        std::copy_n(call.in[0].as<T>() + i * d.n * d.n, d.n * d.n, a.data());
        T* x = call.out[0].as<T>() + i * d.n * d.k;
        std::copy_n(call.in[1].as<T>() + i * d.n * d.k, d.n * d.k, x);
        routines.getrf(&n, &n, a.data(), &n, pivots.data(), &info);
        if (k == 0) continue;
        routines.trsm("R", "U", "N", "N", &k, &n, &one, a.data(), &n, x, &k, 1, 1, 1, 1);
        routines.trsm("R", "L", "N", "U", &k, &n, &one, a.data(), &n, x, &k, 1, 1, 1, 1);
        for (int64_t r = d.n - 1; r >= 0; --r) {
          const int64_t other = pivots[static_cast<size_t>(r)] - 1;
          if (other != r) std::swap_ranges(x + r * d.k, x + (r + 1) * d.k, x + other * d.k);
        }
      }
    });
  });
  raise_errors(p, call, d.count);
}

void run_lanes(const SolveParams& p, const Call& call) {
  const Problem d(call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    if constexpr (!kIsComplex<T>)
      for_lanes<T>(d.count, d.work(), [&](int64_t begin, int64_t end) {
        LaneBuffer<T> a(d.n * d.n);
        LaneBuffer<T> b(d.n * d.k);
        std::vector<LaneMask<T>> pivots(static_cast<size_t>(d.n));
        for (int64_t first = begin * kLanes<T>; first < std::min(end * kLanes<T>, d.count);
             first += kLanes<T>) {
          LaneMask<T> info{};
          load_lanes(call.in[0].as<T>(), d.count, first, d.n * d.n, a.data());
          load_lanes(call.in[1].as<T>(), d.count, first, d.n * d.k, b.data());
          lu_lanes<T>(d.n, d.n, a.data(), pivots.data(), info, b.data(), d.k);
          for (int64_t i = d.n - 1; i >= 0; --i) {
            const Lanes<T> inverse = 1 / a[i * d.n + i];
            for (int64_t c = 0; c < d.k; ++c) b[i * d.k + c] *= inverse;
            for (int64_t r = 0; r < i; ++r) {
              const Lanes<T> factor = a[r * d.n + i];
              for (int64_t c = 0; c < d.k; ++c) b[r * d.k + c] -= factor * b[i * d.k + c];
            }
          }
          store_lanes(b.data(), call.out[0].as<T>(), d.count, first, d.n * d.k);
          for (int64_t l = 0; l < std::min<int64_t>(kLanes<T>, d.count - first); ++l)
            call.out[1].as<int32_t>()[first + l] = static_cast<int32_t>(info[l]);
        }
      });
  });
  raise_errors(p, call, d.count);
}

Support supports_lapack(const SolveParams&, const Specs& s) {
  return supports_lapack_sizes(s, {0, 1});
}
Support supports_batched(const SolveParams&, const Specs& s) {
  const Shape& b = s.in[1].shape;
  return supports_lanes(s, std::max(rows_of(b), columns_of(b)), {0, 1});
}
Support supports_reference(const SolveParams&, const Specs&) {
  return Support::yes().with_contiguous({0, 1});
}

/// Whether b is a batch of vectors: (n), or a's shape without its last axis.
bool holds_vectors(const Tensor& a, const Tensor& b) {
  if (b.rank() == 1) return true;
  return b.rank() == a.rank() - 1 && b.shape() == with(batch_of(a.shape()), {rows_of(a.shape())});
}

SolveEx solve_raising(const Tensor& a, const Tensor& b, bool left, bool check_errors) {
  check_square("linalg.solve", a.spec());
  check<ShapeError>(b.rank() >= 1, "linalg.solve: B must be a vector or matrices, got a number");
  const bool vectors = holds_vectors(a, b);
  check<ShapeError>(left || !vectors, "linalg.solve: X A = B takes matrices B (…, k, n), got {}",
                    b.shape());
  Tensor right = vectors ? unsqueeze(b, -1) : b;
  if (!left) right = transposed(right);
  const Tensor matrix = left ? a : transposed(a);
  const Shape batch =
      broadcast_shapes(batch_of(a.shape()), batch_of(right.shape()), "linalg.solve");
  const Outputs out = dispatch(solve_op(), SolveParams{check_errors, false},
                               {expand_batch(matrix, batch), expand_batch(right, batch)});
  const Tensor x = left ? out[0] : transposed(out[0]);
  return {vectors ? squeeze(x, {-1}) : x, out[1]};
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b, bool left) {
  return solve_raising(a, b, left, true).result;
}
SolveEx solve_ex(const Tensor& a, const Tensor& b, bool left, bool check_errors) {
  return solve_raising(a, b, left, check_errors);
}

InvEx inv_ex(const Tensor& a, bool check_errors) {
  check_square("linalg.inv", a.spec());
  const Tensor one = expand_batch(eye_like(a, columns_of(a.shape())), batch_of(a.shape()));
  const Outputs out = dispatch(solve_op(), SolveParams{check_errors, true}, {a, one});
  return {out[0], out[1]};
}
Tensor inv(const Tensor& a) { return inv_ex(a, true).inverse; }

Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool adjoint) {
  check_square("linalg.lu_solve", lu.spec());
  check_matrix("linalg.lu_solve", b.spec());
  const int64_t n = columns_of(lu.shape());
  // X A = B is Aᴴ Xᴴ = Bᴴ.
  if (!left) return linalg::adjoint(lu_solve(lu, pivots, linalg::adjoint(b), true, !adjoint));
  const Shape batch =
      broadcast_shapes(batch_of(lu.shape()), batch_of(b.shape()), "linalg.lu_solve");
  const Tensor right = expand_batch(b, batch);
  check<ShapeError>(rows_of(b.shape()) == n,
                    "linalg.lu_solve: B must be (…, {}, k) for factors {}, got {}", n, lu.shape(),
                    b.shape());
  const auto order = [&](bool inverse) {
    return expand(lu_permutation(pivots, n, inverse), with(batch, {n}));
  };
  const SideOptions plain{.left = true, .adjoint = adjoint, .unit = false};
  const SideOptions unit{.left = true, .adjoint = adjoint, .unit = true};
  if (adjoint)
    return permute_rows(solve_lower(lu, solve_upper(lu, right, plain), unit), order(true));
  return solve_upper(lu, solve_lower(lu, permute_rows(right, order(false)), unit), plain);
}

}  // namespace linalg

const OpDef& solve_op() {
  using namespace linalg;
  using P = SolveParams;
  static OpDef def =
      Op<P>("solve")
          .inputs({"a", "b"})
          .outputs({"x", "info"})
          .dtypes(kMatrixDTypes)
          .precision(Precision::f32)
          .infer<infer>()
          .vjp<vjp>({.in = {0}, .out = {{0, {0}}}})
          .cpu({kernel<supports_batched, run_lanes>("batched"),
                kernel<supports_lapack, prepare_lapack<P>, run_lapack<run_blas, P>>("lapack"),
                kernel<supports_reference, run_reference>("reference")})
          .build();
  return def;
}

}  // namespace mica

#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/kernels.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/lu.h"
#include "mica/ops/linalg/lu_lanes.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/params.h"
#include "mica/ops/linalg/triangular.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

const OpDef& solve_op();

namespace linalg {
namespace {

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

struct SolveOp : MatrixOp<SolveParams> {
  using MatrixOp::MatrixOp;
  int64_t sides = columns_of(call.in[1].shape());
  double work() const {
    return static_cast<double>(n * n) * static_cast<double>(n + 3 * sides) / 3;
  }

  template <class T>
  auto by_reference() const {
    return [this, pivots = std::vector<int32_t>(static_cast<size_t>(n))](int64_t i) mutable {
      auto a = widened(in<T>(0, i), n * n);
      auto b = widened(in<T>(1, i), n * sides);
      *out<int32_t>(1, i) = dense::lu(n, n, a.data(), pivots.data());
      for (int64_t r = 0; r < n; ++r) exchange(b.data(), r, pivots);
      dense::solve_triangular({.unit = true}, a.data(), b.data(), n, sides);
      dense::solve_triangular({.upper = true}, a.data(), b.data(), n, sides);
      store(b, out<T>(0, i));
    };
  }
  /// What lies row-major is Aᵀ to LAPACK: of its factors P L U = Aᵀ the solution is X = P⁻ᵀ L⁻ᵀ U⁻ᵀ
  /// B, in which nothing has to be transposed.
  template <class T>
  auto by_lapack() const {
    return [this, a = std::vector<T>(static_cast<size_t>(n * n)),
            pivots = std::vector<int32_t>(static_cast<size_t>(n))](int64_t i) mutable {
      const int order = static_cast<int>(n);
      T* x = out<T>(0, i);
      std::copy_n(in<T>(0, i), n * n, a.data());
      std::copy_n(in<T>(1, i), n * sides, x);
      lapack().of<T>().getrf(&order, &order, a.data(), &order, pivots.data(), out<int32_t>(1, i));
      // The triangles that LAPACK sees, turned.
      solve_by_trsm({.upper = false}, a.data(), x, n, sides);
      solve_by_trsm({.upper = true, .unit = true}, a.data(), x, n, sides);
      for (int64_t r = n - 1; r >= 0; --r) exchange(x, r, pivots);
    };
  }
  template <class T>
  auto in_lanes() const {
    return [this, a = LaneBuffer<T>(n * n), b = LaneBuffer<T>(n * sides),
            pivots = std::vector<LaneMask<T>>(static_cast<size_t>(n))](int64_t first) mutable {
      LaneMask<T> info{};
      fill_lanes(0, first, a);
      fill_lanes(1, first, b);
      lu_lanes<T>(n, n, a.data(), pivots.data(), info, b.data(), sides);
      for (int64_t i = n - 1; i >= 0; --i) {
        const Lanes<T> inverse = 1 / a[i * n + i];
        for (int64_t c = 0; c < sides; ++c) b[i * sides + c] *= inverse;
        for (int64_t r = 0; r < i; ++r) {
          const Lanes<T> factor = a[r * n + i];
          for (int64_t c = 0; c < sides; ++c) b[r * sides + c] -= factor * b[i * sides + c];
        }
      }
      take_lanes(b, 0, first);
      take_numbers<T>(info, 1, first);
    };
  }
  void check_results() const {
    if (p.check)
      check_infos(p.inverse ? Failure::inverse : Failure::solve, call.out[1].as<int32_t>(), count);
  }

 private:
  template <class T>
  void exchange(T* rows, int64_t r, const std::vector<int32_t>& pivots) const {
    const int64_t other = pivots[static_cast<size_t>(r)] - 1;
    if (other != r)
      std::swap_ranges(rows + r * sides, rows + (r + 1) * sides, rows + other * sides);
  }
};

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
  if (!left) return mica::adjoint(lu_solve(lu, pivots, mica::adjoint(b), true, !adjoint));
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
  static OpDef def = Op<SolveParams>("solve")
                         .inputs({"a", "b"})
                         .outputs({"x", "info"})
                         .dtypes(kMatrixDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp>({.in = {0}, .out = {{0, {0}}}})
                         .cpu(matrix_kernels<SolveOp>())
                         .build();
  return def;
}

}  // namespace mica

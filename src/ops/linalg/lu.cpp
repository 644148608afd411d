#include "mica/ops/linalg/lu.h"

#include <numeric>

#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/kernels.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/lu_lanes.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/params.h"
#include "mica/ops/linalg/triangular.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/triangle/triangle.h"

namespace mica {

const OpDef& lu_factor_op();
const OpDef& lu_permutation_op();

namespace linalg {
namespace {

void infer(const LuParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check_matrix("linalg.lu_factor", in[0]);
  const Shape& a = in[0].shape;
  add_dense(out, a, in[0].dtype);
  add_dense(out, with(batch_of(a), {std::min(rows_of(a), columns_of(a))}), DType::i32);
  add_dense(out, batch_of(a), DType::i32);
}

/// The unit lower triangle of packed factors, (…, m, k).
Tensor unit_lower(const Tensor& lu, int64_t k) {
  const Tensor below = tril(narrow(lu, -1, 0, k), -1);
  return below + eye(rows_of(lu.shape()), k, {lu.dtype(), lu.device()});
}

/// With M = L⁻¹ dA U⁻¹ = L⁻¹ dL + dU U⁻¹, whose first part is strictly lower and whose second is
/// upper triangular. What a wide or tall matrix has beside its square part follows from that.
Tensors vjp(const LuParams&, const VjpArgs& a) {
  const Tensor& lu = a.out[0];
  const Tensor& g = a.grad[0];
  const int64_t m = rows_of(lu.shape());
  const int64_t n = columns_of(lu.shape());
  const int64_t k = std::min(m, n);
  const auto square = [&](const Tensor& x) { return narrow(narrow(x, -2, 0, k), -1, 0, k); };
  const Tensor core = square(lu);
  const Tensor lower = unit_lower(core, k);
  const Tensor upper = triu(core);
  Tensor of_lower = mica::matmul(adjoint(lower), tril(square(g), -1));
  Tensor of_upper = mica::matmul(triu(square(g)), adjoint(upper));
  const SideOptions left{.left = true, .adjoint = true, .unit = true};
  Tensor rest;
  if (n > m) {
    const Tensor gu = narrow(g, -1, m, n - m);
    of_lower = of_lower - mica::matmul(gu, adjoint(narrow(lu, -1, m, n - m)));
    rest = solve_lower(core, gu, left);
  } else if (m > n) {
    const Tensor gl = narrow(g, -2, n, m - n);
    of_upper = of_upper - mica::matmul(adjoint(narrow(lu, -2, n, m - n)), gl);
    rest = solve_upper(core, gl, {.left = false, .adjoint = true});
  }
  const Tensor both = tril(of_lower, -1) + triu(of_upper);
  Tensor result =
      solve_upper(core, solve_lower(core, both, left), {.left = false, .adjoint = true});
  if (rest.defined()) result = concat({result, rest}, n > m ? -1 : -2);
  return {permute_rows(result, lu_permutation(a.out[1], m, true))};
}

struct LuOp : MatrixOp<LuParams> {
  using MatrixOp::MatrixOp;
  double work() const { return static_cast<double>(m * n) * static_cast<double>(k); }

  template <class T>
  auto by_reference() const {
    return [this](int64_t b) {
      auto a = widened(in<T>(0, b), m * n);
      *out<int32_t>(2, b) = dense::lu(m, n, a.data(), out<int32_t>(1, b));
      store(a, out<T>(0, b));
    };
  }
  template <class T>
  auto by_lapack() const {
    return [this, a = std::vector<T>(static_cast<size_t>(m * n))](int64_t b) mutable {
      const int rows = static_cast<int>(m);
      const int columns = static_cast<int>(n);
      transpose_into(in<T>(0, b), m, n, a.data());
      lapack().of<T>().getrf(&rows, &columns, a.data(), &rows, out<int32_t>(1, b),
                             out<int32_t>(2, b));
      transpose_into(a.data(), n, m, out<T>(0, b));
    };
  }
  template <class T>
  auto in_lanes() const {
    return [this, a = LaneBuffer<T>(m * n),
            pivots = std::vector<LaneMask<T>>(static_cast<size_t>(k))](int64_t first) mutable {
      LaneMask<T> info{};
      fill_lanes(0, first, a);
      lu_lanes<T>(m, n, a.data(), pivots.data(), info);
      take_lanes(a, 0, first);
      take_numbers<T>(info, 2, first);
      for (int l = 0; l < used_lanes<T>(first); ++l)
        for (int64_t j = 0; j < k; ++j)
          out<int32_t>(1, first + l)[j] =
              static_cast<int32_t>(pivots[static_cast<size_t>(j)][l]) + 1;
    };
  }
  void check_results() const {
    if (p.check) check_infos(Failure::lu_factor, call.out[2].as<int32_t>(), count);
  }
};

void infer_permutation(const PermutationParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<DTypeError>(in[0].dtype == DType::i32, "lu_permutation: pivots must be int32, got {}",
                    in[0].dtype);
  check<ShapeError>(in[0].rank() >= 1 && in[0].shape.back() <= p.rows,
                    "lu_permutation: pivots must be (…, at most {}), got {}", p.rows, in[0].shape);
  Shape shape = in[0].shape;
  shape[shape.rank() - 1] = p.rows;
  add_dense(out, shape, DType::i64);
}

void run_permutation(const PermutationParams& p, const Call& call) {
  const int64_t k = call.in[0].shape().back();
  const int64_t count = p.rows == 0 ? 0 : call.out[0].numel() / p.rows;
  std::vector<int64_t> order(static_cast<size_t>(p.rows));
  for (int64_t b = 0; b < count; ++b) {
    std::iota(order.begin(), order.end(), int64_t{0});
    for (int64_t i = 0; i < k; ++i) {
      const int64_t with = call.in[0].as<int32_t>()[b * k + i] - int64_t{1};
      if (with < 0 || with >= p.rows) fail_pivot(with + 1, p.rows);
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(with)]);
    }
    int64_t* to = call.out[0].as<int64_t>() + b * p.rows;
    for (int64_t i = 0; i < p.rows; ++i)
      (p.inverse ? to[order[static_cast<size_t>(i)]] : to[i]) =
          p.inverse ? i : order[static_cast<size_t>(i)];
  }
}

Support supports_permutation(const PermutationParams&, const Specs&) {
  return Support::yes().with_contiguous({0});
}

void check_pivot(const char* op, bool pivot) {
  check<Unsupported>(pivot, "linalg.{}: without pivoting it is not computed on the CPU", op);
}

}  // namespace

Tensor lu_permutation(const Tensor& pivots, int64_t rows, bool inverse) {
  return dispatch(lu_permutation_op(), PermutationParams{rows, inverse}, {pivots})[0];
}

Tensor permute_rows(const Tensor& x, const Tensor& permutation) {
  Shape shape = x.shape();
  const Tensor at = unsqueeze(permutation, -1);
  return gather(x, x.rank() - 2, expand(at, shape));
}

LuFactorEx lu_factor_ex(const Tensor& a, bool pivot, bool check_errors) {
  check_pivot("lu_factor", pivot);
  const Outputs out = dispatch(lu_factor_op(), LuParams{check_errors}, {a});
  return {out[0], out[1], out[2]};
}

LuFactor lu_factor(const Tensor& a, bool pivot) {
  const LuFactorEx out = lu_factor_ex(a, pivot, true);
  return {out.lu, out.pivots};
}

Lu lu_unpack(const Tensor& lu_data, const Tensor& lu_pivots, bool unpack_data, bool unpack_pivots) {
  check_matrix("lu_unpack", lu_data.spec());
  const int64_t m = rows_of(lu_data.shape());
  const int64_t k = std::min(m, columns_of(lu_data.shape()));
  const Tensor none = zeros({0}, {lu_data.dtype(), lu_data.device()});
  Lu out{none, none, none};
  if (unpack_data) {
    out.l = unit_lower(lu_data, k);
    out.u = triu(narrow(lu_data, -2, 0, k));
  }
  if (unpack_pivots) {
    // Column i of P has its one where row i of L U belongs.
    const Tensor order = unsqueeze(lu_permutation(lu_pivots, m, false), -2);
    const Tensor rows = unsqueeze(arange(m, {DType::i64, lu_data.device()}), -1);
    out.p = cast(eq(rows, order), lu_data.dtype());
  }
  return out;
}

Lu lu(const Tensor& a, bool pivot) {
  check_pivot("lu", pivot);
  const LuFactorEx f = lu_factor_ex(a, true, false);
  return lu_unpack(f.lu, f.pivots);
}

}  // namespace linalg

const OpDef& lu_factor_op() {
  using namespace linalg;
  static OpDef def = Op<LuParams>("lu_factor")
                         .inputs({"a"})
                         .outputs({"lu", "pivots", "info"})
                         .dtypes(kMatrixDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp>({.out = {0, 1}})
                         .cpu(matrix_kernels<LuOp>())
                         .build();
  return def;
}

const OpDef& lu_permutation_op() {
  using namespace linalg;
  static OpDef def = Op<PermutationParams>("lu_permutation")
                         .inputs({"pivots"})
                         .outputs({"permutation"})
                         .infer<infer_permutation>()
                         .no_gradient("a permutation does not change smoothly")
                         .cpu({kernel<supports_permutation, run_permutation>("reference")})
                         .build();
  return def;
}

}  // namespace mica

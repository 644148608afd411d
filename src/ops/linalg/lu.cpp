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
#include "mica/ops/linalg/lanes.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/lu_lanes.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/triangular.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/triangle/triangle.h"

namespace mica {

const OpDef& lu_factor_op();
const OpDef& lu_permutation_op();

namespace linalg {
namespace {

struct LuParams {
  bool check = false;  ///< a zero on U's diagonal raises

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("check", self.check);
  }
};

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

struct Problem {
  int64_t m, n, k, count;
  explicit Problem(const Call& call)
      : m(rows_of(call.in[0].shape())),
        n(columns_of(call.in[0].shape())),
        k(std::min(m, n)),
        count(matrices_in(call.in[0].shape())) {}
  double work() const { return static_cast<double>(m * n) * static_cast<double>(k); }
};

void raise_errors(const LuParams& p, const Call& call, int64_t count) {
  if (!p.check) return;
  check_infos("lu_factor", call.out[2].as<int32_t>(), count, [](int at) {
    return fmt::format("U[{0},{0}] is zero, and the factors cannot solve equations", at);
  });
}

void run_reference(const LuParams& p, const Call& call) {
  const Problem d(call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    for_matrices(d.count, d.work(), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        auto a = widened(call.in[0].as<T>() + b * d.m * d.n, d.m * d.n);
        call.out[2].as<int32_t>()[b] =
            dense::lu(d.m, d.n, a.data(), call.out[1].as<int32_t>() + b * d.k);
        store(a, call.out[0].as<T>() + b * d.m * d.n);
      }
    });
  });
  raise_errors(p, call, d.count);
}

void run_blas(const LuParams& p, const Call& call) {
  const Problem d(call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    for_matrices(d.count, d.work(), [&](int64_t begin, int64_t end) {
      std::vector<T> columns(static_cast<size_t>(d.m * d.n));
      const int m = static_cast<int>(d.m);
      const int n = static_cast<int>(d.n);
      for (int64_t b = begin; b < end; ++b) {
        int32_t& info = call.out[2].as<int32_t>()[b];
        info = 0;
        if (d.k == 0) continue;
        transpose_into(call.in[0].as<T>() + b * d.m * d.n, d.m, d.n, columns.data());
        lapack().of<T>().getrf(&m, &n, columns.data(), &m, call.out[1].as<int32_t>() + b * d.k,
                               &info);
        transpose_into(columns.data(), d.n, d.m, call.out[0].as<T>() + b * d.m * d.n);
      }
    });
  });
  raise_errors(p, call, d.count);
}

void run_lanes(const LuParams& p, const Call& call) {
  const Problem d(call);
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    if constexpr (!kIsComplex<T>)
      for_lanes<T>(d.count, d.work(), [&](int64_t begin, int64_t end) {
        LaneBuffer<T> a(d.m * d.n);
        std::vector<LaneMask<T>> pivots(static_cast<size_t>(d.k));
        for (int64_t first = begin * kLanes<T>; first < std::min(end * kLanes<T>, d.count);
             first += kLanes<T>) {
          LaneMask<T> info{};
          load_lanes(call.in[0].as<T>(), d.count, first, d.m * d.n, a.data());
          lu_lanes<T>(d.m, d.n, a.data(), pivots.data(), info);
          store_lanes(a.data(), call.out[0].as<T>(), d.count, first, d.m * d.n);
          for (int64_t l = 0; l < std::min<int64_t>(kLanes<T>, d.count - first); ++l) {
            call.out[2].as<int32_t>()[first + l] = static_cast<int32_t>(info[l]);
            int32_t* own = call.out[1].as<int32_t>() + (first + l) * d.k;
            for (int64_t j = 0; j < d.k; ++j)
              own[j] = static_cast<int32_t>(pivots[static_cast<size_t>(j)][l]) + 1;
          }
        }
      });
  });
  raise_errors(p, call, d.count);
}

Support supports_lapack(const LuParams&, const Specs& s) { return supports_lapack_sizes(s, {0}); }
Support supports_batched(const LuParams&, const Specs& s) {
  const Shape& a = s.in[0].shape;
  return supports_lanes(s, std::max(rows_of(a), columns_of(a)), {0});
}
Support supports_reference(const LuParams&, const Specs&) {
  return Support::yes().with_contiguous({0});
}

struct PermutationParams {
  int64_t rows = 0;
  bool inverse = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("rows", self.rows);
    f("inverse", self.inverse);
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
      check<IndexError>(with >= 0 && with < p.rows,
                        "lu_permutation: a pivot must be in [1, {}], got {}", p.rows, with + 1);
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
  using P = LuParams;
  static OpDef def =
      Op<P>("lu_factor")
          .inputs({"a"})
          .outputs({"lu", "pivots", "info"})
          .dtypes(kMatrixDTypes)
          .precision(Precision::f32)
          .infer<infer>()
          .vjp<vjp>({.out = {0, 1}})
          .cpu({kernel<supports_batched, run_lanes>("batched"),
                kernel<supports_lapack, prepare_lapack<P>, run_lapack<run_blas, P>>("lapack"),
                kernel<supports_reference, run_reference>("reference")})
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

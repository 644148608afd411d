#include <array>
#include <cmath>

#include "mica/op/dispatch.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/kernels.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/linalg/triangular.h"

namespace mica {

const OpDef& matrix_exp_op();

namespace linalg {
namespace {

void infer(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check_square("linalg.matrix_exp", in[0]);
  add_dense(out, in[0].shape, in[0].dtype);
}

/// exp of [[Aᴴ, G], [0, Aᴴ]] has the derivative of exp at Aᴴ in the direction of G for its upper
/// right block.
Tensors vjp(const NoParams&, const VjpArgs& a) {
  const Tensor h = adjoint(a.in[0]);
  const int64_t n = columns_of(h.shape());
  const Tensor above = concat({h, a.grad[0]}, -1);
  const Tensor below = concat({zeros_like(h), h}, -1);
  const Tensor both = matrix_exp(concat({above, below}, -2));
  return {narrow(narrow(both, -2, 0, n), -1, n, n)};
}

/// How a matrix is multiplied and divided by, in plain loops.
template <class S>
struct Plain {
  int64_t n;
  void multiply(const S* a, const S* b, S* c) const {
    std::fill(c, c + n * n, S(0));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < n; ++k)
        for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  }
  /// b becomes a⁻¹ b; a is overwritten.
  void solve(S* a, S* b) const {
    std::vector<int32_t> pivots(static_cast<size_t>(n));
    dense::lu(n, n, a, pivots.data());
    for (int64_t i = 0; i < n; ++i) {
      const int64_t other = pivots[static_cast<size_t>(i)] - 1;
      if (other != i) std::swap_ranges(b + i * n, b + (i + 1) * n, b + other * n);
    }
    dense::solve_triangular({.unit = true}, a, b, n, n);
    dense::solve_triangular({.upper = true}, a, b, n, n);
  }
};

/// The same by LAPACK, to which everything is transposed: products turn around.
template <class S>
struct ByLapack {
  int64_t n;
  void multiply(const S* a, const S* b, S* c) const {
    const int size = static_cast<int>(n);
    const S one = 1;
    const S zero = 0;
    lapack().of<S>().gemm("N", "N", &size, &size, &size, &one, b, &size, a, &size, &zero, c, &size,
                          1, 1);
  }
  void solve(S* a, S* b) const {
    const int size = static_cast<int>(n);
    int info = 0;
    std::vector<int> pivots(static_cast<size_t>(n));
    lapack().of<S>().getrf(&size, &size, a, &size, pivots.data(), &info);
    solve_by_trsm({.upper = false}, a, b, n, n);
    solve_by_trsm({.upper = true, .unit = true}, a, b, n, n);
    for (int64_t i = n - 1; i >= 0; --i) {
      const int64_t other = pivots[static_cast<size_t>(i)] - 1;
      if (other != i) std::swap_ranges(b + i * n, b + (i + 1) * n, b + other * n);
    }
  }
};

/// Padé's approximation of degree 13 of a matrix that was halved until it is small, squared as
/// often.
template <class S, class Algebra>
void exponential(const Algebra& algebra, const S* given, S* result) {
  constexpr double kSmall = 5.371920351148152;
  constexpr std::array<double, 14> kPade = {64764752532480000,
                                            32382376266240000,
                                            7771770303897600,
                                            1187353796428800,
                                            129060195264000,
                                            10559470521600,
                                            670442572800,
                                            33522128640,
                                            1323241920,
                                            40840800,
                                            960960,
                                            16380,
                                            182,
                                            1};
  using R = Real<S>;
  const int64_t n = algebra.n;
  const auto size = static_cast<size_t>(n * n);
  double norm = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::abs(given[i * n + j]);
    norm = sum > norm || std::isnan(sum) ? sum : norm;
  }
  if (!std::isfinite(norm)) {
    std::fill(result, result + size, S(std::numeric_limits<R>::quiet_NaN()));
    return;
  }
  const int halvings = norm > kSmall ? static_cast<int>(std::ceil(std::log2(norm / kSmall))) : 0;
  std::vector<S> a(given, given + size);
  for (S& value : a) value *= static_cast<R>(std::ldexp(1.0, -halvings));
  std::vector<S> a2(size), a4(size), a6(size), sum(size), u(size), v(size);
  algebra.multiply(a.data(), a.data(), a2.data());
  algebra.multiply(a2.data(), a2.data(), a4.data());
  algebra.multiply(a4.data(), a2.data(), a6.data());
  // Of odd (first = 1) or even powers: A⁶ (b A⁶ + b A⁴ + b A²) + b A⁶ + b A⁴ + b A² + b.
  const auto powers = [&](size_t first, std::vector<S>& to) {
    const auto b = [&](size_t k) { return static_cast<R>(kPade[k + first]); };
    for (size_t i = 0; i < size; ++i) sum[i] = b(12) * a6[i] + b(10) * a4[i] + b(8) * a2[i];
    algebra.multiply(a6.data(), sum.data(), to.data());
    for (size_t i = 0; i < size; ++i) to[i] += b(6) * a6[i] + b(4) * a4[i] + b(2) * a2[i];
    for (int64_t i = 0; i < n; ++i) to[static_cast<size_t>(i * (n + 1))] += b(0);
  };
  powers(1, v);
  algebra.multiply(a.data(), v.data(), u.data());
  powers(0, v);
  for (size_t i = 0; i < size; ++i) {
    result[i] = v[i] + u[i];
    sum[i] = v[i] - u[i];
  }
  algebra.solve(sum.data(), result);
  for (int k = 0; k < halvings; ++k) {
    algebra.multiply(result, result, sum.data());
    std::copy(sum.begin(), sum.end(), result);
  }
}

struct ExpOp : MatrixOp<NoParams> {
  using MatrixOp::MatrixOp;
  double work() const { return 10 * cube(n); }

  template <class T>
  auto by_reference() const {
    return [this, result = std::vector<Wide<T>>(static_cast<size_t>(n * n))](int64_t b) mutable {
      exponential(Plain<Wide<T>>{n}, widened(in<T>(0, b), n * n).data(), result.data());
      store(result, out<T>(0, b));
    };
  }
  template <class T>
  auto by_lapack() const {
    return [this](int64_t b) { exponential(ByLapack<T>{n}, in<T>(0, b), out<T>(0, b)); };
  }
};

}  // namespace

Tensor matrix_exp(const Tensor& a) { return dispatch(matrix_exp_op(), NoParams{}, {a})[0]; }

}  // namespace linalg

const OpDef& matrix_exp_op() {
  using namespace linalg;
  static OpDef def = Op<NoParams>("matrix_exp")
                         .inputs({"a"})
                         .dtypes(kMatrixDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp>({.in = {0}})
                         .cpu(matrix_kernels<ExpOp>())
                         .build();
  return def;
}

}  // namespace mica

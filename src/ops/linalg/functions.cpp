// What users call of factors and equations: mica.linalg. A name with a dot is one of a module.
#include "mica/op/function.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/results.h"
#include "mica/ops/linalg/words.h"

namespace mica {
namespace {

using namespace linalg;

/// Of one tensor called A, of ops that compute in float32 at least.
Function of_matrix(const char* name, Tensor (*f)(const Tensor&), const char* doc,
                   const char* op = nullptr) {
  return {.name = name,
          .doc = doc,
          .signatures = {{f, {"A"}}},
          .offer = kModule,
          .precision = Precision::f32,
          .op = op};
}

Function function(const char* name, const char* doc, std::vector<Signature> signatures,
                  const char* op = nullptr) {
  return {.name = name,
          .doc = doc,
          .signatures = std::move(signatures),
          .offer = kModule,
          .precision = Precision::f32,
          .op = op};
}

RankOptions rank_options(std::optional<double> atol, std::optional<double> rtol, bool hermitian) {
  return {.atol = atol, .rtol = rtol, .hermitian = hermitian};
}

Functions factors() {
  return {
      function("linalg.cholesky",
               "The lower triangle L with L Lᴴ = A of Hermitian positive definite matrices (…, n, "
               "n), of which the lower triangle is read; with upper Lᴴ, from the upper one. Raises "
               "LinAlgError where a matrix is not positive definite.",
               {{linalg::cholesky, {"A", kKeywordOnly, {"upper", false}}}}, "cholesky"),
      function(
          "linalg.cholesky_ex",
          "(L, info): cholesky without an error, unless check_errors; info (…, int32) is 0, or "
          "the order of the first leading minor that is not positive.",
          {{[](const Tensor& a, bool upper, bool check_errors) -> Tensors {
              const CholeskyEx f = cholesky_ex(a, upper, check_errors);
              return {f.l, f.info};
            },
            {"A", kKeywordOnly, {"upper", false}, {"check_errors", false}}}},
          "cholesky"),
      function("linalg.qr",
               "(Q, R) with Q R = A (…, m, n), Q's columns orthonormal and R upper triangular; Q "
               "has min(m, n) columns, or m of mode 'complete'; of mode 'r' it is empty.",
               {{[](const Tensor& a, QrMode mode) -> Tensors {
                   const Qr f = linalg::qr(a, mode);
                   return {f.q, f.r};
                 },
                 {"A", {"mode", "reduced"}}}},
               "qr"),
      function(
          "linalg.svd",
          "(U, S, Vh) with U diag(S) Vh = A (…, m, n), S in descending order. U is (…, m, m) "
          "and Vh (…, n, n); without full_matrices they hold the first min(m, n) vectors.",
          {{[](const Tensor& a, bool full_matrices, const std::optional<std::string>&) -> Tensors {
              const Svd f = linalg::svd(a, full_matrices);
              return {f.u, f.s, f.vh};
            },
            {"A", {"full_matrices", true}, kKeywordOnly, {"driver", kNone}}}},
          "svd"),
      function(
          "linalg.svdvals", "The singular values (…, min(m, n)) in descending order.",
          {{[](const Tensor& a, const std::optional<std::string>&) { return linalg::svdvals(a); },
            {"A", kKeywordOnly, {"driver", kNone}}}},
          "svd"),
      function("linalg.eigh",
               "(eigenvalues, eigenvectors) of Hermitian matrices (…, n, n): values (…, n) in "
               "ascending order, vectors in columns. UPLO says which triangle is read.",
               {{[](const Tensor& a, Uplo uplo) -> Tensors {
                   const Eigen e = linalg::eigh(a, uplo);
                   return {e.eigenvalues, e.eigenvectors};
                 },
                 {"A", {"UPLO", "L"}}}},
               "eigh"),
      function("linalg.eigvalsh", "The eigenvalues (…, n) of Hermitian matrices, ascending.",
               {{linalg::eigvalsh, {"A", {"UPLO", "L"}}}}, "eigh"),
      function(
          "linalg.eig",
          "(eigenvalues, eigenvectors) of square matrices (…, n, n): complex values (…, n) in no "
          "order, and vectors of length 1 in columns.",
          {{[](const Tensor& a) -> Tensors {
              const Eigen e = linalg::eig(a);
              return {e.eigenvalues, e.eigenvectors};
            },
            {"A"}}},
          "eig"),
      of_matrix("linalg.eigvals", linalg::eigvals,
                "The complex eigenvalues (…, n) of square matrices, in no order.", "eig"),
      function("linalg.lu_factor",
               "(LU, pivots) of P L U = A (…, m, n): U, with L below its diagonal; row i was "
               "exchanged with row pivots[i] - 1. Raises LinAlgError where U has a zero on its "
               "diagonal.",
               {{[](const Tensor& a, bool pivot) -> Tensors {
                   const LuFactor f = lu_factor(a, pivot);
                   return {f.lu, f.pivots};
                 },
                 {"A", kKeywordOnly, {"pivot", true}}}},
               "lu_factor"),
      function("linalg.lu_factor_ex",
               "(LU, pivots, info): lu_factor without an error, unless check_errors; info (…, "
               "int32) is 0, or the place of the first zero on U's diagonal.",
               {{[](const Tensor& a, bool pivot, bool check_errors) -> Tensors {
                   const LuFactorEx f = lu_factor_ex(a, pivot, check_errors);
                   return {f.lu, f.pivots, f.info};
                 },
                 {"A", kKeywordOnly, {"pivot", true}, {"check_errors", false}}}},
               "lu_factor"),
      function("linalg.lu", "(P, L, U) with P L U = A (…, m, n), by partial pivoting.",
               {{[](const Tensor& a, bool pivot) -> Tensors {
                   const Lu f = linalg::lu(a, pivot);
                   return {f.p, f.l, f.u};
                 },
                 {"A", kKeywordOnly, {"pivot", true}}}}),
      {.name = "lu_unpack",
       .doc = "(P, L, U) from what linalg.lu_factor gives; what is not unpacked is empty.",
       .signatures = {{[](const Tensor& data, const Tensor& pivots, bool unpack_data,
                          bool unpack_pivots) -> Tensors {
                         const Lu f = lu_unpack(data, pivots, unpack_data, unpack_pivots);
                         return {f.p, f.l, f.u};
                       },
                       {"LU_data", "LU_pivots", {"unpack_data", true}, {"unpack_pivots", true}}}},
       .offer = kModule,
       .op = "linalg.lu"},
  };
}

Functions equations() {
  return {
      function("linalg.solve",
               "X with A X = B, or X A = B without left. A is (…, n, n); B (…, n, k), or vectors: "
               "(n), or A's shape without its last axis. Raises LinAlgError where a matrix is "
               "singular.",
               {{linalg::solve, {"A", "B", kKeywordOnly, {"left", true}}}}, "solve"),
      function("linalg.solve_ex",
               "(result, info): solve without an error, unless check_errors; info (…, int32) is 0, "
               "or the place of the first zero pivot.",
               {{[](const Tensor& a, const Tensor& b, bool left, bool check_errors) -> Tensors {
                   const SolveEx f = solve_ex(a, b, left, check_errors);
                   return {f.result, f.info};
                 },
                 {"A", "B", kKeywordOnly, {"left", true}, {"check_errors", false}}}},
               "solve"),
      function("linalg.solve_triangular",
               "X with A X = B (or X A = B without left) for triangular matrices, of which the "
               "other triangle is not read, nor the diagonal where they are unitriangular.",
               {{[](const Tensor& a, const Tensor& b, bool upper, bool left, bool unitriangular) {
                   return linalg::solve_triangular(a, b, upper, {left, unitriangular});
                 },
                 {"A", "B", kKeywordOnly, "upper", {"left", true}, {"unitriangular", false}}}},
               "solve_triangular"),
      function("linalg.lu_solve",
               "X with A X = B (or X A = B without left) from what lu_factor gives for A; of Aᴴ "
               "with adjoint.",
               {{linalg::lu_solve,
                 {"LU", "pivots", "B", kKeywordOnly, {"left", true}, {"adjoint", false}}}}),
      function("cholesky_solve",
               "X with A X = B from the triangle L that linalg.cholesky gives for A.",
               {{cholesky_solve, {"B", "L", {"upper", false}}}}),
      function("cholesky_inverse",
               "The inverse of A from the triangle L that linalg.cholesky gives for it.",
               {{cholesky_inverse, {"L", {"upper", false}}}}, "cholesky_solve"),
      function("linalg.lstsq",
               "(solution, residuals, rank, singular_values): the X with the least |A X - B|, of "
               "those the smallest. Singular values up to rcond times the largest count as zero. "
               "Driver 'gels' takes matrices of full rank, by QR factors; the others use singular "
               "values.",
               {{[](const Tensor& a, const Tensor& b, std::optional<double> rcond,
                    std::optional<LstsqDriver> driver) -> Tensors {
                   const Lstsq f = linalg::lstsq(a, b, rcond, driver);
                   return {f.solution, f.residuals, f.rank, f.singular_values};
                 },
                 {"A", "B", {"rcond", kNone}, kKeywordOnly, {"driver", kNone}}}}),
      of_matrix("linalg.inv", linalg::inv,
                "The inverse of square matrices; raises LinAlgError where there is none."),
      function("linalg.inv_ex",
               "(inverse, info): inv without an error, unless check_errors; info (…, int32) is 0, "
               "or the place of the first zero pivot.",
               {{[](const Tensor& a, bool check_errors) -> Tensors {
                   const InvEx f = inv_ex(a, check_errors);
                   return {f.inverse, f.info};
                 },
                 {"A", kKeywordOnly, {"check_errors", false}}}},
               "linalg.inv"),
      function("linalg.pinv",
               "Moore and Penrose's inverse (…, n, m) of A (…, m, n). Singular values up to "
               "max(atol, rtol times the largest) count as zero; rtol is max(m, n) times the "
               "dtype's epsilon where neither is given.",
               {{[](const Tensor& a, std::optional<double> atol, std::optional<double> rtol,
                    bool hermitian) { return pinv(a, rank_options(atol, rtol, hermitian)); },
                 {"A", kKeywordOnly, {"atol", kNone}, {"rtol", kNone}, {"hermitian", false}}},
                {[](const Tensor& a, double rcond, bool hermitian) {
                   return pinv(a, rank_options({}, rcond, hermitian));
                 },
                 {"A", "rcond", {"hermitian", false}}}}),
      function("linalg.matrix_rank",
               "How many singular values of A are not zero, as linalg.pinv counts; (…), int64.",
               {{[](const Tensor& a, std::optional<double> atol, std::optional<double> rtol,
                    bool hermitian) { return matrix_rank(a, rank_options(atol, rtol, hermitian)); },
                 {"A", kKeywordOnly, {"atol", kNone}, {"rtol", kNone}, {"hermitian", false}}},
                {[](const Tensor& a, double tol, bool hermitian) {
                   return matrix_rank(a, rank_options(tol, 0.0, hermitian));
                 },
                 {"A", "tol", {"hermitian", false}}}}),
  };
}

Functions numbers() {
  return {
      of_matrix("linalg.det", linalg::det, "The determinants (…) of square matrices."),
      function("linalg.slogdet",
               "(sign, logabsdet): the sign of the determinant and the logarithm of its magnitude; "
               "0 and -infinity where it is 0.",
               {{[](const Tensor& a) -> Tensors {
                   const SlogDet d = slogdet(a);
                   return {d.sign, d.logabsdet};
                 },
                 {"A"}}}),
      {.name = "logdet",
       .doc = "The logarithm of the determinants of square matrices; NaN where a real one is "
              "negative.",
       .signatures = {{linalg::logdet, {"input"}}},
       .offer = kModule,
       .precision = Precision::f32,
       .op = "linalg.slogdet"},
      function("linalg.matrix_power",
               "The product of n equal square matrices; of their inverses for a negative n.",
               {{linalg::matrix_power, {"A", "n"}}}),
      of_matrix("linalg.matrix_exp", linalg::matrix_exp,
                "The matrix exponential, the sum of Aᵏ / k!, of square matrices.", "matrix_exp"),
      function("linalg.vector_norm",
               "(sum of |x|^ord)^(1/ord) over dim, or over all; the number of nonzero elements for "
               "0, the largest or smallest magnitude for ±infinity.",
               {{linalg::vector_norm,
                 {"x",
                  {"ord", 2.0},
                  {"dim", kNone},
                  {"keepdim", false},
                  kKeywordOnly,
                  {"dtype", kNone}}}}),
      function("linalg.matrix_norm",
               "A norm of the matrices in two axes: 'fro', the root of the sum of squares; 'nuc', "
               "the sum of the singular values; the largest sum of magnitudes of a column (1) or "
               "row (infinity), the largest singular value (2), or the smallest (negative).",
               {{overload<const Tensor&, MatrixNorm, const Dims&, bool, std::optional<DType>>(
                     linalg::matrix_norm),
                 {"A",
                  {"ord", "fro"},
                  {"dim", Dims{-2, -1}},
                  {"keepdim", false},
                  kKeywordOnly,
                  {"dtype", kNone}}},
                {overload<const Tensor&, double, const Dims&, bool, std::optional<DType>>(
                     linalg::matrix_norm),
                 {"A",
                  "ord",
                  {"dim", Dims{-2, -1}},
                  {"keepdim", false},
                  kKeywordOnly,
                  {"dtype", kNone}}}}),
      function(
          "linalg.norm",
          "Without ord the root of the sum of squares over dim, or over all; else the vector "
          "norm of one axis, or the matrix norm of two.",
          {{overload<const Tensor&, std::optional<double>, const Dims&, bool, std::optional<DType>>(
                linalg::norm),
            {"A",
             {"ord", kNone},
             {"dim", kNone},
             {"keepdim", false},
             kKeywordOnly,
             {"dtype", kNone}}},
           {overload<const Tensor&, MatrixNorm, const Dims&, bool, std::optional<DType>>(
                linalg::norm),
            {"A", "ord", {"dim", kNone}, {"keepdim", false}, kKeywordOnly, {"dtype", kNone}}}},
          "linalg.matrix_norm"),
      function("linalg.cond",
               "norm(A) norm(A⁻¹), by singular values where p is 2, -2 or None; infinity of a "
               "singular matrix.",
               {{overload<const Tensor&, std::optional<double>>(linalg::cond), {"A", {"p", kNone}}},
                {overload<const Tensor&, MatrixNorm>(linalg::cond), {"A", "p"}}}),
  };
}

}  // namespace

Functions linalg_functions() {
  Functions all = factors();
  for (const auto& more : {equations(), numbers()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

namespace linalg {

std::span<const ResultNames> result_names() {
  static const std::vector<ResultNames> names = {
      {"linalg.cholesky_ex", "CholeskyEx", {"L", "info"}},
      {"linalg.qr", "Qr", {"Q", "R"}},
      {"linalg.svd", "Svd", {"U", "S", "Vh"}},
      {"linalg.eigh", "Eigen", {"eigenvalues", "eigenvectors"}},
      {"linalg.eig", "Eigen", {"eigenvalues", "eigenvectors"}},
      {"linalg.lu_factor", "LuFactor", {"LU", "pivots"}},
      {"linalg.lu_factor_ex", "LuFactorEx", {"LU", "pivots", "info"}},
      {"linalg.lu", "Lu", {"P", "L", "U"}},
      {"lu_unpack", "Lu", {"P", "L", "U"}},
      {"linalg.solve_ex", "SolveEx", {"result", "info"}},
      {"linalg.inv_ex", "InvEx", {"inverse", "info"}},
      {"linalg.lstsq", "Lstsq", {"solution", "residuals", "rank", "singular_values"}},
      {"linalg.slogdet", "SlogDet", {"sign", "logabsdet"}},
  };
  return names;
}

}  // namespace linalg
}  // namespace mica

#pragma once

#include <optional>
#include <string>

#include "mica/core/tensor.h"
#include "mica/op/fields.h"
#include "mica/ops/linalg/error.h"

// Linear algebra with PyTorch's names: matrices are the last two axes, and what comes before them
// is a batch. See docs/linalg.md for errors and gradients.
namespace mica::linalg {

// Factors.

/// The lower triangle L with L Lᴴ = a of Hermitian positive definite matrices (…, n, n), of which
/// the lower triangle is read; with `upper` U = Lᴴ, and the upper one is. Raises LinAlgError where
/// a matrix is not positive definite.
Tensor cholesky(const Tensor& a, bool upper = false);
struct CholeskyEx {
  Tensor l;
  Tensor info;  ///< (…), i32: 0, or the order of the first leading minor that is not positive
};
/// The same without an error, unless `check_errors`.
CholeskyEx cholesky_ex(const Tensor& a, bool upper = false, bool check_errors = false);

struct Qr {
  Tensor q;
  Tensor r;
};
enum class QrMode : uint8_t { reduced, complete, r };
/// a (…, m, n) = Q R: Q (…, m, k) with orthonormal columns and R (…, k, n) upper triangular, with k
/// = min(m, n), or m where `mode` is complete. Of mode r, Q is empty.
Qr qr(const Tensor& a, QrMode mode = QrMode::reduced);

struct Svd {
  Tensor u;
  Tensor s;   ///< in descending order
  Tensor vh;  ///< rows are the right singular vectors
};
/// a (…, m, n) = U diag(S) Vh; U is (…, m, m) and Vh (…, n, n), or both of the first min(m, n)
/// vectors alone.
Svd svd(const Tensor& a, bool full_matrices = true);
/// The singular values (…, min(m, n)) in descending order.
Tensor svdvals(const Tensor& a);

struct Eigen {
  Tensor eigenvalues;
  Tensor eigenvectors;  ///< columns
};
/// Which triangle of a Hermitian matrix is read.
enum class Uplo : uint8_t { lower, upper };
/// Eigenvalues (…, n) in ascending order and orthonormal eigenvectors (…, n, n) of Hermitian
/// matrices.
Eigen eigh(const Tensor& a, Uplo uplo = Uplo::lower);
Tensor eigvalsh(const Tensor& a, Uplo uplo = Uplo::lower);
/// Eigenvalues (…, n), complex and in no order, and eigenvectors (…, n, n) of length 1 of any
/// square matrices.
Eigen eig(const Tensor& a);
Tensor eigvals(const Tensor& a);

struct LuFactor {
  Tensor lu;      ///< (…, m, n): U, and below its diagonal L without its ones
  Tensor pivots;  ///< (…, min(m, n)), i32, from 1: the row that row i was exchanged with
};
struct LuFactorEx {
  Tensor lu;
  Tensor pivots;
  Tensor info;  ///< (…), i32: 0, or the place of the first zero on U's diagonal
};
/// P L U = a (…, m, n) by partial pivoting, packed.
LuFactor lu_factor(const Tensor& a, bool pivot = true);
LuFactorEx lu_factor_ex(const Tensor& a, bool pivot = true, bool check_errors = false);
struct Lu {
  Tensor p;  ///< (…, m, m), a permutation
  Tensor l;  ///< (…, m, k), ones on its diagonal
  Tensor u;  ///< (…, k, n)
};
Lu lu(const Tensor& a, bool pivot = true);
/// P, L and U from what lu_factor gives; those that are not wanted are empty.
Lu lu_unpack(const Tensor& lu_data, const Tensor& lu_pivots, bool unpack_data = true,
             bool unpack_pivots = true);

// Equations.

/// X with a X = b, or X a = b without `left`. a is (…, n, n); b (…, n, k), or vectors: (n), or a's
/// shape without its last axis. Raises LinAlgError where a matrix is singular.
Tensor solve(const Tensor& a, const Tensor& b, bool left = true);
struct SolveEx {
  Tensor result;
  Tensor info;
};
SolveEx solve_ex(const Tensor& a, const Tensor& b, bool left = true, bool check_errors = false);

struct TriangularOptions {
  bool left = true;            ///< A X = B, else X A = B
  bool unitriangular = false;  ///< ones are on the diagonal, which is not read
};
/// X with a X = b for triangular matrices, of which the other triangle is not read. A zero on the
/// diagonal gives infinities.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper,
                        const TriangularOptions& options = {});
/// X with a X = b from a's factors; Aᴴ in A's place with `adjoint`.
Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left = true,
                bool adjoint = false);
/// X with a X = b, and the inverse of a, from the triangle that `cholesky` gives.
Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper = false);
Tensor cholesky_inverse(const Tensor& l, bool upper = false);

struct Lstsq {
  Tensor solution;         ///< (…, n, k)
  Tensor residuals;        ///< (…, k): sums of squares where m > n and the rank is full, else empty
  Tensor rank;             ///< (…), i64; empty of driver gels
  Tensor singular_values;  ///< (…, min(m, n)); empty of gels and gelsy
};
/// By QR factors of matrices of full rank (gels), or by singular values (the others).
enum class LstsqDriver : uint8_t { gels, gelsy, gelsd, gelss };
/// The X with the least |a X - b| for each column of b, of those the smallest. Singular values up
/// to rcond times the largest count as zero; max(m, n) times the dtype's epsilon unless given.
Lstsq lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond = {},
            std::optional<LstsqDriver> driver = {});

/// The inverse; raises LinAlgError where there is none.
Tensor inv(const Tensor& a);
struct InvEx {
  Tensor inverse;
  Tensor info;
};
InvEx inv_ex(const Tensor& a, bool check_errors = false);

/// Up to which singular values count as zero: max(atol, rtol * the largest). rtol is max(m, n)
/// times the dtype's epsilon where neither is given.
struct RankOptions {
  std::optional<double> atol = {};
  std::optional<double> rtol = {};
  bool hermitian = false;  ///< the matrices are Hermitian: by their eigenvalues
};
/// Moore and Penrose's inverse (…, n, m).
Tensor pinv(const Tensor& a, const RankOptions& options = {});
/// How many singular values are not zero; (…), i64.
Tensor matrix_rank(const Tensor& a, const RankOptions& options = {});

Tensor det(const Tensor& a);
struct SlogDet {
  Tensor sign;       ///< 0 where the determinant is
  Tensor logabsdet;  ///< -infinity there
};
SlogDet slogdet(const Tensor& a);
/// The logarithm of the determinant; NaN where a real one is negative.
Tensor logdet(const Tensor& a);

/// a times itself n times; the inverse's power for a negative n.
Tensor matrix_power(const Tensor& a, int64_t n);
/// The sum of aᵏ / k!.
Tensor matrix_exp(const Tensor& a);

// Norms.

/// (sum of |x|^ord)^(1/ord) over axes, all of them when none is named.
Tensor vector_norm(const Tensor& x, double ord = 2, const Dims& axes = {}, bool keepdim = false,
                   std::optional<DType> dtype = {});
enum class MatrixNorm : uint8_t { fro, nuc };
/// Of the matrices in two axes: the root of the sum of squares (fro), or the sum of the singular
/// values (nuc).
Tensor matrix_norm(const Tensor& a, MatrixNorm ord = MatrixNorm::fro, const Dims& axes = {-2, -1},
                   bool keepdim = false, std::optional<DType> dtype = {});
/// The largest sum of a column's (1) or row's (infinity) magnitudes, the largest singular value
/// (2), or the smallest of each (negative).
Tensor matrix_norm(const Tensor& a, double ord, const Dims& axes = {-2, -1}, bool keepdim = false,
                   std::optional<DType> dtype = {});
/// The vector norm of all elements where no order is named, or of one axis; of two axes, or of
/// matrices, the matrix norm.
Tensor norm(const Tensor& a, std::optional<double> ord = {}, const Dims& axes = {},
            bool keepdim = false, std::optional<DType> dtype = {});
Tensor norm(const Tensor& a, MatrixNorm ord, const Dims& axes = {}, bool keepdim = false,
            std::optional<DType> dtype = {});
/// norm(a) * norm(inv(a)); by singular values where p is 2 or -2, as it is unless given.
Tensor cond(const Tensor& a, std::optional<double> p = {});
Tensor cond(const Tensor& a, MatrixNorm p);

// Products.

/// The product of matrices in the order that takes the fewest multiplications; the first and the
/// last may be vectors.
Tensor multi_dot(const Tensors& tensors);
/// The cross products along an axis of three.
Tensor cross(const Tensor& a, const Tensor& b, int64_t axis = -1);
/// The sums of products along an axis, of conj(x) and y.
Tensor vecdot(const Tensor& x, const Tensor& y, int64_t axis = -1);
/// Powers 0 … n-1 of x (…, k) in a last axis; n = k unless given.
Tensor vander(const Tensor& x, std::optional<int64_t> n = {});
/// A diagonal of two axes, the last ones unless named.
Tensor diagonal(const Tensor& a, int64_t offset = 0, int64_t axis1 = -2, int64_t axis2 = -1);
Tensor matmul(const Tensor& a, const Tensor& b);
/// X with tensordot(a, X) = b: axes of a are moved to its end first.
Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& axes = {});
/// The inverse for tensordot with `ind` axes.
Tensor tensorinv(const Tensor& a, int64_t ind = 2);

}  // namespace mica::linalg

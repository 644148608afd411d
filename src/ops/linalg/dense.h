#pragma once

#include <complex>
#include <cstdint>
#include <vector>

// Textbook algorithms for one dense row-major matrix in double precision, real or complex: what
// `reference` kernels compute with where no LAPACK is installed, and what every other kernel is
// held to. S is double or std::complex<double>.
namespace mica::linalg::dense {

template <class S>
using Matrix = std::vector<S>;  ///< (rows, columns), row-major

/// The lower triangle of a (n, n) becomes L with L Lᴴ = a, the rest 0. 0, or the order of the first
/// leading minor that is not positive.
template <class S>
int cholesky(int64_t n, S* a);

/// a (m, n) becomes U and, below its diagonal, L of P L U = a, by rows of the largest |re| + |im|;
/// row i was exchanged with row pivots[i] - 1. 0, or the place (from 1) of the first zero of U's
/// diagonal.
template <class S>
int lu(int64_t m, int64_t n, S* a, int32_t* pivots);

struct Triangle {
  bool upper = false;
  bool left = true;      ///< A X = B, else X A = B
  bool unit = false;     ///< ones on the diagonal, which is not read
  bool adjoint = false;  ///< Aᴴ in A's place
};

/// b (rows, columns) becomes X.
template <class S>
void solve_triangular(const Triangle& t, const S* a, S* b, int64_t rows, int64_t columns);

/// Q (m, q_columns) and R (q_columns, n) of a (m, n) by Householder's reflections, with LAPACK's
/// signs; `a` is overwritten. q_columns is m or min(m, n).
template <class S>
void qr(int64_t m, int64_t n, S* a, int64_t q_columns, S* q, S* r);

/// a (m, n) = u diag(s) vh by one-sided Jacobi rotations; u is (m, m) and vh (n, n) with `full`,
/// else they have min(m, n) columns and rows. False where the rotations do not come to an end.
template <class S>
bool svd(int64_t m, int64_t n, const S* a, bool full, Matrix<S>& u, std::vector<double>& s,
         Matrix<S>& vh);

/// Eigenvalues in ascending order and eigenvectors (columns) of the Hermitian matrix whose lower
/// triangle a (n, n) holds, by Jacobi's rotations.
template <class S>
bool eigh(int64_t n, const S* a, std::vector<double>& values, Matrix<S>& vectors);

/// Eigenvalues and right eigenvectors (columns of length 1, the largest element real) by QR
/// iterations on a Hessenberg matrix.
bool eig(int64_t n, const std::complex<double>* a, std::vector<std::complex<double>>& values,
         Matrix<std::complex<double>>& vectors);

}  // namespace mica::linalg::dense

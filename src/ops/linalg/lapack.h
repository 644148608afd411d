#pragma once

#include <complex>
#include <string>

// LAPACK, opened when a matrix is first factored: by its Fortran interface, so that any build of it
// serves. Matrices are column-major there; what lies row-major is their transpose.
namespace mica::linalg {

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;
template <class T>
inline constexpr bool kIsComplex = !std::is_same_v<T, Real<T>>;

/// The routines for one dtype. Every length and leading dimension is a 32-bit integer.
template <class T>
struct LapackRoutines {
  using R = Real<T>;
  using Size = size_t;  ///< the hidden length of a character
  using I = const int*;

  void (*potrf)(const char* uplo, I n, T* a, I lda, int* info, Size);
  void (*getrf)(I m, I n, T* a, I lda, int* pivots, int* info);
  void (*trsm)(const char* side, const char* uplo, const char* trans, const char* diag, I m, I n,
               const T* alpha, const T* a, I lda, T* b, I ldb, Size, Size, Size, Size);
  void (*gemm)(const char* ta, const char* tb, I m, I n, I k, const T* alpha, const T* a, I lda,
               const T* b, I ldb, const T* beta, T* c, I ldc, Size, Size);
  void (*geqrf)(I m, I n, T* a, I lda, T* tau, T* work, I lwork, int* info);
  void (*orgqr)(I m, I n, I k, T* a, I lda, const T* tau, T* work, I lwork, int* info);
  void* gesdd;  ///< complex matrices have one more argument: see below
  void* heevd;
  void* geev;
};

struct Lapack {
  LapackRoutines<float> s;
  LapackRoutines<double> d;
  LapackRoutines<std::complex<float>> c;
  LapackRoutines<std::complex<double>> z;
  std::string name;  ///< of the library

  template <class T>
  const LapackRoutines<T>& of() const {
    if constexpr (std::is_same_v<T, float>) return s;
    if constexpr (std::is_same_v<T, double>) return d;
    if constexpr (std::is_same_v<T, std::complex<float>>) return c;
    if constexpr (std::is_same_v<T, std::complex<double>>) return z;
  }
};

/// The library; raises Unsupported with the reason where there is none. MICA_LAPACK names another
/// file than those that are looked for, and `none` leaves all alone.
const Lapack& lapack();

/// A = U diag(s) Vᴴ of a column-major (m, n), which is overwritten. `job`: 'A' all of U and Vᴴ, 'S'
/// the first min(m, n) of them, 'N' the singular values alone. What comes back is LAPACK's info.
template <class T>
int gesdd(char job, int m, int n, T* a, Real<T>* s, T* u, int ldu, T* vt, int ldvt);
/// Eigenvalues, and with `vectors` the eigenvectors in the place of the Hermitian matrix, of which
/// the triangle `uplo` is read.
template <class T>
int heevd(bool vectors, char uplo, int n, T* a, Real<T>* w);
/// Eigenvalues and (unless null) right eigenvectors of a column-major square matrix, which is
/// overwritten.
template <class T>
int geev(int n, T* a, std::complex<Real<T>>* w, std::complex<Real<T>>* vectors);

}  // namespace mica::linalg

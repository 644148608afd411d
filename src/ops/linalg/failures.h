#pragma once

#include <cstdint>

// What is wrong with a matrix, in words, which the kernels of every device say alike.
namespace mica::linalg {

enum class Failure : uint8_t {
  cholesky,
  lu_factor,
  solve,
  inverse,
  svd,
  eigh,
  eig,
};

/// The info of an input that is no finite number, where iterations would not end.
inline constexpr int kNotFiniteInfo = -1;

/// Raises LinAlgError for matrix `at` of a batch of `count`; `info` is LAPACK's.
[[noreturn]] void fail_factor(Failure failure, int64_t at, int64_t count, int info);
/// Raises IndexError for a pivot of lu_permutation.
[[noreturn]] void fail_pivot(int64_t pivot, int64_t rows);

}  // namespace mica::linalg

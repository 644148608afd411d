#include "mica/ops/linalg/failures.h"

#include <string>

#include "mica/core/check.h"
#include "mica/ops/linalg/error.h"

namespace mica::linalg {
namespace {

const char* name_of(Failure failure) {
  switch (failure) {
    case Failure::cholesky:
      return "cholesky";
    case Failure::lu_factor:
      return "lu_factor";
    case Failure::solve:
      return "solve";
    case Failure::inverse:
      return "inv";
    case Failure::svd:
      return "svd";
    case Failure::eigh:
      return "eigh";
    case Failure::eig:
      break;
  }
  return "eig";
}

std::string words_of(Failure failure, int info) {
  switch (failure) {
    case Failure::cholesky:
      return fmt::format(
          "the matrix is not positive definite (its leading minor of order {} is not positive)",
          info);
    case Failure::lu_factor:
      return fmt::format("U[{0},{0}] is zero, and the factors cannot solve equations", info);
    case Failure::solve:
    case Failure::inverse:
      return "the matrix is singular";
    default:
      return "the iteration does not converge";
  }
}

}  // namespace

void fail_factor(Failure failure, int64_t at, int64_t count, int info) {
  const char* const op = name_of(failure);
  if (info == kNotFiniteInfo) fail<LinAlgError>("linalg.{}: the input holds NaN or infinity", op);
  const std::string place = count > 1 ? fmt::format("(batch element {}) ", at) : std::string();
  fail<LinAlgError>("linalg.{}: {}{}", op, place, words_of(failure, info));
}

void fail_pivot(int64_t pivot, int64_t rows) {
  fail<IndexError>("lu_permutation: a pivot must be in [1, {}], got {}", rows, pivot);
}

}  // namespace mica::linalg

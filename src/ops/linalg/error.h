#pragma once

#include "mica/core/error.h"

namespace mica {

/// A matrix that has no such factors: singular, not positive definite, not finite, or one for which
/// an iteration does not converge. Python's mica.linalg.LinAlgError.
class LinAlgError : public Error {
 public:
  using Error::Error;
};

}  // namespace mica

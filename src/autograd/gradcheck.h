#pragma once

#include <functional>
#include <string>

#include "mica/core/tensor.h"

namespace mica {

struct GradcheckOptions {
  double step = 1e-5;         ///< of the central differences
  double tolerance = 1e-6;    ///< largest relative error
  int64_t full_up_to = 64;    ///< inputs with more elements are checked along random directions
  int directions = 2;         ///< how many, for each such input
  bool second_order = false;  ///< check the gradient's own gradient instead
  uint64_t seed = 1;          ///< of the cotangent and the directions
};

struct GradcheckResult {
  bool ok = true;
  double worst = 0;     ///< largest relative error met
  std::string message;  ///< where it is, with both values; empty when ok
  explicit operator bool() const { return ok; }
};

/// Compares the gradient of `function` with central differences, for a random cotangent: each
/// element of an input up to `full_up_to` elements, random directions beyond. Inputs that require a
/// gradient are checked and must be f64; the others are passed as they are. The function must give
/// the same outputs for the same inputs. Outputs without history do not take part.
GradcheckResult gradcheck(const std::function<Tensors(const Tensors&)>& function,
                          const Tensors& inputs, const GradcheckOptions& options = {});

/// The same for second order: compares the gradient of `function`'s gradient.
GradcheckResult gradgradcheck(const std::function<Tensors(const Tensors&)>& function,
                              const Tensors& inputs, GradcheckOptions options = {});

}  // namespace mica

#pragma once

#include "mica/core/tensor.h"

namespace mica {

/// Log-probabilities or logits (N, C, …), classes (N, …) of an integer type, and weights (C) or
/// none; or (C) and ().
void check_classes(const char* op, const Tensor& input, const Tensor& target, const Tensor& weight);

/// Targets (N, …) that are classes.
struct ClassTargets {
  Tensor classes;  ///< i64; 0 where ignored
  Tensor counts;   ///< bool: not ignored
  Tensor weights;  ///< the classes' weights, 0 where ignored
};
ClassTargets class_targets(const Tensor& target, int64_t ignore_index, const Tensor& weight,
                           DType dtype);

}  // namespace mica

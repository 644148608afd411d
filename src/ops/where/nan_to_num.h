#pragma once

#include <optional>

#include "mica/core/tensor.h"

namespace mica {

struct NanToNumOptions {
  double nan = 0;
  std::optional<double> posinf = {};  ///< the largest number of the dtype where it is left out
  std::optional<double> neginf = {};  ///< the lowest
};

/// x with numbers in place of NaN and the infinities.
Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options = {});

}  // namespace mica

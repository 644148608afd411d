#pragma once

#include "mica/core/tensor.h"

namespace mica {

/// x[i + 1] - x[i] along an axis, n times over; where bools differ. `prepend` and `append`, where
/// defined, are joined to x along the axis first.
Tensor diff(const Tensor& x, int64_t n = 1, int64_t axis = -1, const Tensor& prepend = {},
            const Tensor& append = {});

}  // namespace mica

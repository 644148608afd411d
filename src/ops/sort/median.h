#pragma once

#include "mica/ops/sort/sort.h"

namespace mica {

/// The middle value of all elements, of an even number the lower one. NaN wins.
Tensor median(const Tensor& x);
/// The same along an axis, and where along it each was found.
Sorted median(const Tensor& x, int64_t axis, bool keepdim = false);

}  // namespace mica

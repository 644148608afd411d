#pragma once

#include "mica/core/tensor.h"

namespace mica {

/// (…, C * r², H, W) becomes (…, C, H * r, W * r): each group of r² channels is a tile of r by r
/// pixels.
Tensor pixel_shuffle(const Tensor& x, int64_t r);
/// The way back: (…, C, H * r, W * r) becomes (…, C * r², H, W).
Tensor pixel_unshuffle(const Tensor& x, int64_t r);
/// (N, C, …) with its channels, seen as (groups, C / groups), transposed.
Tensor channel_shuffle(const Tensor& x, int64_t groups);

}  // namespace mica

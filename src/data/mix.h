#pragma once

#include "mica/core/tensor.h"

namespace mica::data {

/// Images, and for each the probabilities of its classes, which cross_entropy takes as targets.
struct Mixed {
  Tensor x;  ///< (N, C, H, W)
  Tensor y;  ///< f32 (N, classes)
};

struct MixOptions {
  int64_t classes = 0;
  double alpha = 1;  ///< the share of the first image is drawn from Beta(alpha, alpha)
};

// Each image of x (N, C, H, W) with classes y (N) i64 and the one before it in the batch, in shares
// that are drawn once for a batch. They are functions of the device, for a training step of one's
// own, compiled or not.

/// The sum of both, by their shares (MixUp).
Mixed mixup(const Tensor& x, const Tensor& y, const MixOptions& options);
/// A rectangle of the first is the second's; the shares are those of the area (CutMix).
Mixed cutmix(const Tensor& x, const Tensor& y, const MixOptions& options);

}  // namespace mica::data

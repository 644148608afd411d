#pragma once

#include "mica/core/tensor.h"

namespace mica::data {

/// Labelled images on the CPU.
struct ImageDataset {
  Tensor images;  ///< (N, C, H, W) f32
  Tensor labels;  ///< (N) i64

  int64_t size() const { return labels.numel(); }
  /// The first n of them, or all where there are fewer.
  ImageDataset first(int64_t n) const;
};

}  // namespace mica::data

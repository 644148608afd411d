#pragma once

#include "mica/core/tensor.h"

namespace mica {

struct ChunkedCrossEntropyOptions {
  Tensor bias = {};              ///< (C)
  int64_t chunk = 4096;          ///< rows whose logits are in memory at once
  int64_t ignore_index = -100;   ///< targets that count for nothing
  double label_smoothing = 0.0;  ///< in [0, 1)
};

/// cross_entropy(linear(x, weight, bias), target) of x (…, K), weight (C, K) and classes (…), where
/// the logits of all rows would not fit: they are computed chunk by chunk, and again in backward.
Tensor chunked_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                             const ChunkedCrossEntropyOptions& options = {});

}  // namespace mica

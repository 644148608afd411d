#pragma once

#include "mica/core/tensor.h"

namespace mica {

/// `samples` indices (i64) for each row of weights (…, n), which need not add up to 1, each drawn
/// with its probability: (…, samples). Without replacement no index comes twice. Weights have one
/// or two axes.
Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement = false);

}  // namespace mica

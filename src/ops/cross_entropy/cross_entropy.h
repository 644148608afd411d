#pragma once

#include "mica/core/tensor.h"
#include "mica/op/params.h"

namespace mica {

struct CrossEntropyParams {
  int64_t ignore_index = -100;   ///< rows with this target count for nothing
  double label_smoothing = 0.0;  ///< in [0, 1)

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("ignore_index", self.ignore_index);
    f("label_smoothing", self.label_smoothing);
  }
};

/// Mean over the rows of -log softmax(logits)[target]. logits (N, C) of a float type, target (N) of
/// i64, i32 or u8. The result is 0-d: f32 for f16 and bf16 logits, else their dtype. It is NaN when
/// every row is ignored. The op has a second output that the gradient reads: (N) logsumexp per row,
/// in the result's dtype. A target outside [0, C) raises IndexError on the CPU and gives NaN on
/// CUDA.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyParams& params = {});

/// Gradient for logits: inputs dloss (0-d), logits (N, C), target (N), logsumexp (N).
Tensor cross_entropy_grad(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                          const Tensor& logsumexp, const CrossEntropyParams& params);

}  // namespace mica

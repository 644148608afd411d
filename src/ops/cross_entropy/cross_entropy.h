#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"
#include "mica/ops/activation.h"
#include "mica/ops/loss/reduction.h"

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

/// Of linear_cross_entropy_dgrad: the activation is what made the layer's input, if anything did.
struct LinearCrossEntropyParams {
  CrossEntropyParams loss;
  Activation activation = Activation::none;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    CrossEntropyParams::fields(self.loss, f);
    f("activation", self.activation);
  }
};

struct CrossEntropyOptions {
  Tensor weight = {};            ///< (C), of each class
  int64_t ignore_index = -100;   ///< class targets that count for nothing
  double label_smoothing = 0.0;  ///< in [0, 1)
  Reduction reduction = Reduction::mean;
};

/// -log softmax(logits)[target] of logits (N, C, …) or (C) of a float type. Targets are classes,
/// (N, …) or () of i64, i32 or u8, or probabilities of the logits' shape. Results are f32 for f16
/// and bf16 logits, else of their dtype. The mean over classes is weighted by their weights, and is
/// NaN when every target is ignored. A class outside [0, C) raises IndexError on the CPU and gives
/// NaN on CUDA.
///
/// The mean over classes without weights is the op of this name, whose parameters are
/// CrossEntropyParams; its inputs are logits (N, C) and classes (N), and it has a second output
/// that the gradient reads: (N) logsumexp per row, in the result's dtype.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {});

/// Gradient for logits: inputs dloss (0-d), logits (N, C), target (N), logsumexp (N).
Tensor cross_entropy_grad(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                          const Tensor& logsumexp, const CrossEntropyParams& params);

}  // namespace mica

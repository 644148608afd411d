#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"
#include "mica/ops/loss/reduction.h"

namespace mica {

struct CtcParams {
  int64_t blank = 0;
  bool zero_infinity = false;
  bool keep = true;  ///< the gradient is an output

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("blank", self.blank);
    f("zero_infinity", self.zero_infinity);
    f("keep", self.keep);
  }
};

struct CtcOptions {
  int64_t blank = 0;
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;  ///< losses and gradients of targets that cannot be aligned are 0
};

/// Connectionist temporal classification: minus the logarithm of the probability that log_probs (T,
/// N, C), logarithms of probabilities, give targets (N, S), classes other than `blank`, with
/// repeats merged and blanks left out. Sequence n has input_lengths[n] steps and target_lengths[n]
/// targets, all integers; targets of one axis are those of all sequences one after the other. The
/// mean is of the losses divided by the targets' lengths. Op outputs: the losses (N) and, where
/// kept, their gradients for log_probs (T, N, C).
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options = {});

}  // namespace mica

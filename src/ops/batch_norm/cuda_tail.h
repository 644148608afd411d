#pragma once

// What is left of a batch norm, and of its gradient, where its sums over channels were taken by who
// made its operand.
#include "mica/ops/batch_norm/statistics.h"

namespace mica {

/// A batch norm in training whose moments, f32, come in parts: (C, parts) of a count, a mean and a
/// sum of squared deviations. Specs and calls are batch_norm's, or those of the call with a program
/// after it, `carried`, where that is not null.
class BatchNormTail {
 public:
  static Support supports(const AnchoredParams* carried, const Specs& specs);
  BatchNormTail(const BatchNormParams& params, const AnchoredParams* carried, const Specs& specs);
  void run(const Call& call, const void* moments, int parts) const;

 private:
  BatchNormParams params_;
  BatchNormEnd end_;
  size_t results_ = 1;
  bool generated_ = false;
  std::shared_ptr<const KernelState> state_;
};

/// Its gradient, where (C, parts) sums of dy and of dy · (x − mean) are given. Specs and calls are
/// batch_norm_grad's.
class BatchNormGradTail {
 public:
  explicit BatchNormGradTail(const Specs& specs);
  void run(const BatchNormParams& params, const Call& call, const void* sums, int parts) const;

 private:
  std::shared_ptr<const KernelState> state_;
};

}  // namespace mica

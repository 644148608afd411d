#pragma once

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
};

/// RMSprop with PyTorch's formulas (ops/optimizer_update). States: "square_avg" and, where they are
/// asked for, "momentum" and "grad_avg".
class RMSprop final : public Optimizer {
 public:
  using Group = ParameterGroup<RMSpropOptions>;
  explicit RMSprop(Tensors parameters, const RMSpropOptions& options = {});
  explicit RMSprop(const std::vector<Group>& groups);
  /// As they were given; lr(group) is the rate now.
  const RMSpropOptions& options(size_t group = 0) const { return options_[checked(group)]; }

 private:
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;

  std::vector<RMSpropOptions> options_;
};

}  // namespace mica::optim

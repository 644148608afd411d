#pragma once

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// Stochastic gradient descent with PyTorch's formulas (ops/optimizer_update). State: "momentum".
class SGD final : public Optimizer {
 public:
  using Group = ParameterGroup<SGDOptions>;
  explicit SGD(Tensors parameters, const SGDOptions& options = {});
  explicit SGD(const std::vector<Group>& groups);
  /// As they were given; lr(group) is the rate now.
  const SGDOptions& options(size_t group = 0) const { return options_[checked(group)]; }

 private:
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;

  std::vector<SGDOptions> options_;
};

}  // namespace mica::optim

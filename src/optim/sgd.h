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
class SGD final : public OptimizerWith<SGDOptions> {
 public:
  explicit SGD(Tensors parameters, const SGDOptions& options = {});
  explicit SGD(const std::vector<Group>& groups);

 private:
  void check_options(const SGDOptions& o) const override;
  std::vector<State> states_for(const SGDOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
  std::optional<double> claim_momentum(size_t group) override;
  bool works_on_masters() const override { return momenta().defined(); }
};

}  // namespace mica::optim

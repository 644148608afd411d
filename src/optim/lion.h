#pragma once

#include <array>

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;
};

/// Steps by the sign of the momentum, with decoupled weight decay (ops/optimizer_update). State:
/// "exp_avg".
class Lion final : public OptimizerWith<LionOptions> {
 public:
  explicit Lion(Tensors parameters, const LionOptions& options = {});
  explicit Lion(const std::vector<Group>& groups);

 private:
  void check_options(const LionOptions& o) const override;
  std::vector<State> states_for(const LionOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
};

}  // namespace mica::optim

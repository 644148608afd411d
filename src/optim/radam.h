#pragma once

#include <array>

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
};

/// Rectified Adam with PyTorch's formulas (ops/optimizer_update). States: "exp_avg", "exp_avg_sq".
class RAdam final : public OptimizerWith<RAdamOptions> {
 public:
  explicit RAdam(Tensors parameters, const RAdamOptions& options = {});
  explicit RAdam(const std::vector<Group>& groups);

 private:
  void check_options(const RAdamOptions& o) const override;
  std::vector<State> states_for(const RAdamOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
};

}  // namespace mica::optim

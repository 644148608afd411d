#pragma once

#include <array>

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct NAdamOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
};

/// Adam with Nesterov's momentum, with PyTorch's formulas (ops/optimizer_update). States:
/// "exp_avg", "exp_avg_sq" and for each group "group0.mu_product".
class NAdam final : public OptimizerWith<NAdamOptions> {
 public:
  explicit NAdam(Tensors parameters, const NAdamOptions& options = {});
  explicit NAdam(const std::vector<Group>& groups);

 private:
  void check_options(const NAdamOptions& o) const override;
  std::vector<State> states_for(const NAdamOptions& o) const override;
  void group_added(size_t group) override;
  void begin_update(size_t group) override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;

  Tensors mu_products_;  ///< of each group, f64 []
};

}  // namespace mica::optim

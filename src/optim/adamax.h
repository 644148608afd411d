#pragma once

#include <array>

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
};

/// Adam by the largest gradient, with PyTorch's formulas (ops/optimizer_update). States: "exp_avg",
/// "exp_inf".
class Adamax final : public OptimizerWith<AdamaxOptions> {
 public:
  explicit Adamax(Tensors parameters, const AdamaxOptions& options = {});
  explicit Adamax(const std::vector<Group>& groups);

 private:
  void check_options(const AdamaxOptions& o) const override;
  std::vector<State> states_for(const AdamaxOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
};

}  // namespace mica::optim

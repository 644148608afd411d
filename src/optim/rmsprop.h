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
class RMSprop final : public OptimizerWith<RMSpropOptions> {
 public:
  explicit RMSprop(Tensors parameters, const RMSpropOptions& options = {});
  explicit RMSprop(const std::vector<Group>& groups);

 private:
  void check_options(const RMSpropOptions& o) const override;
  std::vector<State> states_for(const RMSpropOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
};

}  // namespace mica::optim

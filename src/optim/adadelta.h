#pragma once

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
};

/// Adadelta with PyTorch's formulas (ops/optimizer_update). States: "square_avg", "acc_delta".
class Adadelta final : public OptimizerWith<AdadeltaOptions> {
 public:
  explicit Adadelta(Tensors parameters, const AdadeltaOptions& options = {});
  explicit Adadelta(const std::vector<Group>& groups);

 private:
  void check_options(const AdadeltaOptions& o) const override;
  std::vector<State> states_for(const AdadeltaOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
};

}  // namespace mica::optim

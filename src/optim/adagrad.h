#pragma once

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
};

/// Adagrad with PyTorch's formulas (ops/optimizer_update). State: "sum".
class Adagrad final : public OptimizerWith<AdagradOptions> {
 public:
  explicit Adagrad(Tensors parameters, const AdagradOptions& options = {});
  explicit Adagrad(const std::vector<Group>& groups);

 private:
  void check_options(const AdagradOptions& o) const override;
  std::vector<State> states_for(const AdagradOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
};

}  // namespace mica::optim

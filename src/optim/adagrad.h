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
class Adagrad final : public Optimizer {
 public:
  using Group = ParameterGroup<AdagradOptions>;
  explicit Adagrad(Tensors parameters, const AdagradOptions& options = {});
  explicit Adagrad(const std::vector<Group>& groups);
  /// As they were given; lr(group) is the rate now.
  const AdagradOptions& options(size_t group = 0) const { return options_[checked(group)]; }

 private:
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;

  std::vector<AdagradOptions> options_;
};

}  // namespace mica::optim

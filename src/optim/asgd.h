#pragma once

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct ASGDOptions {
  double lr = 1e-2;
  double lambd = 1e-4;  ///< how fast parameters and rate decay
  double alpha = 0.75;  ///< the power of the rate's decay
  double t0 = 1e6;      ///< the step from which on "ax" is an average
  double weight_decay = 0;
};

/// Averaged stochastic gradient descent, with PyTorch's formulas for a rate that stays. State:
/// "ax", the average.
class ASGD final : public OptimizerWith<ASGDOptions> {
 public:
  explicit ASGD(Tensors parameters, const ASGDOptions& options = {});
  explicit ASGD(const std::vector<Group>& groups);

 private:
  bool works_on_masters() const override { return true; }
  void check_options(const ASGDOptions& o) const override;
  std::vector<State> states_for(const ASGDOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
};

}  // namespace mica::optim

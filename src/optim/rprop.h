#pragma once

#include <array>

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct RpropOptions {
  double lr = 1e-2;                               ///< the first size of every step
  std::array<double, 2> etas = {0.5, 1.2};        ///< what a size is multiplied with: less, more
  std::array<double, 2> step_sizes = {1e-6, 50};  ///< the least and the largest
};

/// Resilient backpropagation, with PyTorch's formulas: every element has a size of its own to step
/// by, which grows while its gradient keeps its sign. For whole batches. States: "prev",
/// "step_size".
class Rprop final : public OptimizerWith<RpropOptions> {
 public:
  explicit Rprop(Tensors parameters, const RpropOptions& options = {});
  explicit Rprop(const std::vector<Group>& groups);

 private:
  bool works_on_masters() const override { return true; }
  void check_options(const RpropOptions& o) const override;
  std::vector<State> states_for(const RpropOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
};

}  // namespace mica::optim

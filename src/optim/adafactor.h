#pragma once

#include <optional>
#include <utility>

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct AdafactorOptions {
  double lr = 1e-2;
  double beta2_decay = -0.8;
  /// What squares are at least, the dtype's smallest step unless given; and what the parameters'
  /// size, which the rate is relative to, is at least.
  std::pair<std::optional<double>, double> eps = {std::nullopt, 1e-3};
  double d = 1;  ///< the largest size of an update
  double weight_decay = 0;
};

/// Adafactor, with PyTorch's formulas: of the squares of a matrix' gradient the means of rows and
/// columns are kept, not each. States: "row_var" (…, n, 1) and "col_var" (…, 1, m) of matrices,
/// "variance" of vectors; the others are empty.
class Adafactor final : public OptimizerWith<AdafactorOptions> {
 public:
  explicit Adafactor(Tensors parameters, const AdafactorOptions& options = {});
  explicit Adafactor(const std::vector<Group>& groups);

 private:
  bool works_on_masters() const override { return true; }
  void check_options(const AdafactorOptions& o) const override;
  std::vector<State> states_for(const AdafactorOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
};

}  // namespace mica::optim

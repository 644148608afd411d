#pragma once

#include <array>

#include "mica/optim/optimizer.h"

namespace mica::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
};

/// Adam with PyTorch's formulas (ops/optimizer_update). States: "exp_avg", "exp_avg_sq" and, with
/// amsgrad, "max_exp_avg_sq".
class Adam final : public OptimizerWith<AdamOptions> {
 public:
  explicit Adam(Tensors parameters, const AdamOptions& options = {});
  explicit Adam(const std::vector<Group>& groups);

 private:
  void check_options(const AdamOptions& o) const override;
  std::vector<State> states_for(const AdamOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
  std::optional<double> claim_momentum(size_t group) override { return options(group).betas[0]; }
  bool works_on_masters() const override { return momenta().defined(); }
};

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
};

/// Adam whose weight decay shrinks the parameters themselves.
class AdamW final : public OptimizerWith<AdamWOptions> {
 public:
  explicit AdamW(Tensors parameters, const AdamWOptions& options = {});
  explicit AdamW(const std::vector<Group>& groups);

 private:
  void check_options(const AdamWOptions& o) const override;
  std::vector<State> states_for(const AdamWOptions& o) const override;
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
  std::optional<double> claim_momentum(size_t group) override { return options(group).betas[0]; }
  bool works_on_masters() const override { return momenta().defined(); }
};

}  // namespace mica::optim

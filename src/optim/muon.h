#pragma once

#include <array>

#include "mica/optim/optimizer.h"

namespace mica::optim {

/// By how much the rate of a matrix (rows, columns) is scaled.
enum class MuonScale : uint8_t {
  original,            ///< sqrt(max(1, rows / columns))
  match_rms_adamw,     ///< 0.2 sqrt(max(rows, columns)): steps as long as AdamW's
  spectral_unclamped,  ///< sqrt(rows / columns)
};

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;
  int64_t ns_steps = 5;
  MuonScale scale = MuonScale::original;
};

/// Steps along the momentum made orthogonal by Newton-Schulz iterations, for the matrices of a
/// network; what is not a matrix wants another optimizer. With PyTorch's formulas, but computed in
/// the parameter's precision, not in bf16. State: "momentum".
class Muon final : public OptimizerWith<MuonOptions> {
 public:
  explicit Muon(Tensors parameters, const MuonOptions& options = {});
  explicit Muon(const std::vector<Group>& groups);

 private:
  void check_options(const MuonOptions& o) const override;
  void check_parameters(const Tensors& parameters) const override;
  std::vector<State> states_for(const MuonOptions& o) const override;
  bool works_on_masters() const override { return true; }
  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override;
};

}  // namespace mica::optim

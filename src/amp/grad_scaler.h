#pragma once

#include <map>
#include <string>
#include <vector>

#include "mica/optim/optimizer.h"

namespace mica::amp {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  ///< steps without an overflow until the scale grows
  bool enabled = true;             ///< else losses and steps pass as they are

  bool operator==(const GradScalerOptions&) const = default;
};

/// Keeps gradients of f16 within its range: the loss is scaled before backward, the gradients are
/// scaled back before the step, and a step whose gradients are not finite is left out and halves
/// the scale.
///
///     scaler.scale(loss).backward();
///     scaler.step(optimizer);
///     scaler.update();
///
/// Scale, counter and the answer whether gradients are finite stay on the device: a step that is
/// left out waits for nobody, and all of it may stand in a compiled function.
class GradScaler {
 public:
  explicit GradScaler(Device device, const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  Tensor scale(const Tensor& loss) const;
  /// Scales the gradients of the optimizer's parameters back, before step() does it: for who clips
  /// them or looks at them.
  void unscale(const optim::Optimizer& optimizer);
  /// The optimizer's step where all gradients are finite. Parameters, states, step count and rates
  /// stay as they are where they are not.
  void step(optim::Optimizer& optimizer);
  /// After the steps of all optimizers: sets the scale for the next ones.
  void update();

  bool is_enabled() const { return options_.enabled; }
  const GradScalerOptions& options() const { return options_; }
  /// Waits for the device.
  double get_scale() const;
  /// A new scale from now on.
  void set_scale(double scale);
  /// Others from now on; functions that were compiled with the ones before are captured again.
  void set_growth_factor(double new_factor);
  void set_backoff_factor(double new_factor);
  void set_growth_interval(int64_t new_interval);

  /// Handles to the state itself: "scale" and "growth_tracker". clone() what is to be kept.
  std::map<std::string, Tensor> state_dict() const;
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  struct Unscaled {
    const optim::Optimizer* optimizer;
    Tensor finite;  ///< bool []
    bool stepped = false;
  };
  Unscaled* find(const optim::Optimizer& optimizer);
  void set_options(const GradScalerOptions& options);

  GradScalerOptions options_;
  Tensor scale_;           ///< f32 []
  Tensor growth_tracker_;  ///< i64 [], steps since the scale changed
  std::vector<Unscaled> unscaled_;
};

}  // namespace mica::amp

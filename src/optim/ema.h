#pragma once

#include <string>

#include "mica/core/state_dict.h"
#include "mica/ops/schedule_lr/schedule_lr.h"

namespace mica::optim {

struct EMAOptions {
  double decay = 0.999;
  bool warmup = false;  ///< the decay is at most (1 + n) / (10 + n) after n updates
};

/// An exponential moving average of weights: averages = decay averages + (1 - decay) weights at
/// each update, which belongs after the optimizer's step and may be compiled with it. Averages of
/// weights in half precision are f32.
class EMA {
 public:
  explicit EMA(Tensors parameters, const EMAOptions& options = {});
  EMA(const EMA&) = delete;
  EMA& operator=(const EMA&) = delete;

  /// Where `where`, one bool on the device, is given and false nothing happens.
  void update(const Tensor& where = {});
  const Tensors& averages() const { return averages_; }
  const EMAOptions& options() const { return options_; }
  /// Puts the averages in the weights' place, until restore() puts the weights back.
  void apply();
  void restore();

  /// "steps" and for each weight, by its number, "0.average".
  StateDict state_dict() const;
  /// Copies values in; a missing, unknown or misshapen entry raises, and then nothing was changed.
  void load_state_dict(const StateDict& state);

 private:
  EMAOptions options_;
  Tensors parameters_;
  Tensors averages_;
  Tensors weights_;  ///< while the averages are in their place
  StepCount count_;
  Tensor curve_;
  Tensor no_rates_;  ///< f64 [0]
};

}  // namespace mica::optim

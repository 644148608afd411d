#pragma once

#include "mica/core/tensor.h"

namespace mica::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// Stochastic gradient descent with PyTorch's formulas. Make it after the module was moved to its
/// device.
class SGD {
 public:
  explicit SGD(Tensors parameters, const SGDOptions& options = {});

  /// Updates every parameter that requires a gradient and has one, in one launch.
  void step();
  /// Makes all gradients undefined.
  void zero_grad();

  double lr() const { return options_.lr; }
  /// The rate is in device memory: a compiled step sees the new one.
  void set_lr(double lr);

 private:
  SGDOptions options_;
  Tensors parameters_;
  Tensors momenta_;  ///< one per parameter where momentum is used
  Tensor lr_;        ///< 0-d f32 on the parameters' device
};

}  // namespace mica::optim

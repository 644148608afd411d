#pragma once

#include "mica/nn/activations.h"

namespace mica::nn {

struct SqueezeExcitationOptions {
  int64_t channels = 0;
  int64_t squeeze = 0;  ///< channels between the two convolutions
  Module activation = default_activation();
  Module scale_activation = Sigmoid();
};

/// Scales each channel of each image x (N, channels, H, W) by what two convolutions of 1×1, "fc1"
/// and "fc2", make of the means of all its channels.
struct SqueezeExcitationImpl : ModuleImpl {
  explicit SqueezeExcitationImpl(const SqueezeExcitationOptions& options);
  Tensor forward(const Tensor& x);
  std::string describe() const override;

 private:
  int64_t channels_;
  int64_t squeeze_;
};

/// `SqueezeExcitation({.channels = 96, .squeeze = 4, .activation = SiLU()})`.
class SqueezeExcitation : public Handle<SqueezeExcitationImpl> {
 public:
  explicit SqueezeExcitation(const SqueezeExcitationOptions& options);
};

}  // namespace mica::nn

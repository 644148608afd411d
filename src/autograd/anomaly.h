#pragma once

#include <optional>
#include <span>

#include "mica/autograd/autograd.h"
#include "mica/core/spec.h"

namespace mica {

class GradNode;

/// Anomaly mode finds where a NaN or an infinity comes from. While it is on, an op that makes one
/// out of finite inputs raises Error with its name and where its inputs came from; in backward, the
/// op whose gradient is not finite though what came back to it was, and where it was recorded. Also
/// in compiled functions, step by step. An infinite parameter (`masked_fill(x, mask, -inf)`) is no
/// finite input. Every value is read on the host: for finding an error, not for training.
/// Per thread; off by default, and free then.
bool detect_anomaly();
void set_detect_anomaly(bool on);

/// On, or off, while it lives: `AnomalyMode guard;`.
class AnomalyMode {
 public:
  explicit AnomalyMode(bool on = true) : before_(detect_anomaly()) { set_detect_anomaly(on); }
  ~AnomalyMode() { set_detect_anomaly(before_); }
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  bool before_;
};

/// "nan at [0, 2]": the first value that is not finite; empty where all are. `data` lies on the
/// spec's device.
std::string not_finite(const void* data, const TensorSpec& spec);

/// Raises when a gradient is not finite though the cotangents are.
void check_gradients(const GradNode& node, const Tensors& cotangents, const Tensors& gradients);

}  // namespace mica

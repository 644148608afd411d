#pragma once

#include "mica/core/tensor.h"
#include "mica/ops/schedule_lr/rate_curve.h"

namespace mica {

/// The numbers of a curve as a tensor, f64 [kRateCurveNumbers].
Tensor to_tensor(const RateCurve& curve, Device device = {});
/// And back; waits for the device.
RateCurve to_rate_curve(const Tensor& numbers);

/// Begins a step of an optimizer: lr[g] becomes the curve's rate for base_lr[g] after `steps`
/// steps, and `steps` is raised by one. Everything lies in device memory, so that a compiled step
/// needs nothing from the host.
/// Op inputs: curve (as to_tensor gives it), base_lr f64 [groups], steps i64 [] (mutated), lr f64
/// [groups] (mutated).
void schedule_lr(const Tensor& curve, const Tensor& base_lr, const Tensor& steps, const Tensor& lr);

}  // namespace mica

#pragma once

#include <span>

#include "mica/core/tensor.h"
#include "mica/ops/schedule_lr/rate_curve.h"

namespace mica {

/// The pieces of a schedule, at most kRateCurves, as a tensor f64 [kRateCurves, kRateCurveNumbers].
Tensor to_tensor(std::span<const RateCurve> pieces, Device device = {});
/// And back; waits for the device.
std::vector<RateCurve> to_rate_curves(const Tensor& numbers);

/// What schedule_lr counts, each i64 [].
struct StepCount {
  Tensor steps;   ///< how many were made
  Tensor number;  ///< of this step, from 1; 0 where it is left out
};

/// Begins a step of an optimizer: lr[g] becomes the schedule's rate for base_lr[g] after `steps`
/// steps, and `steps` is raised by one. Where `where`, a bool, is given and false nothing of that
/// happens, and `number` becomes 0. Everything lies in device memory, so that a compiled step needs
/// nothing from the host.
/// Op inputs: curve (as to_tensor gives it), base_lr f64 [groups], where? bool [], steps, number
/// and lr f64 [groups] (mutated).
void schedule_lr(const Tensor& curve, const Tensor& base_lr, const StepCount& count,
                 const Tensor& lr, const Tensor& where = {});

}  // namespace mica

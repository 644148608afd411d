#pragma once

#include "mica/core/tensor.h"

// Clipping of gradients, between backward and the optimizer's step. Parameters get new gradients;
// nothing is read on the host, so that both can be captured.
namespace mica::optim {

/// The norm of all tensors together, one number: Euclidean unless another is asked for, which may
/// be infinite.
Tensor get_total_norm(const Tensors& tensors, double norm_type = 2);

/// Scales the gradients of the parameters by min(1, max_norm / (norm + 1e-6)), where norm is that
/// of all of them together, which is returned. As in PyTorch a norm that is not finite makes
/// gradients that are not.
Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, double norm_type = 2);

/// Brings every element of the gradients between -clip_value and clip_value.
void clip_grad_value_(const Tensors& parameters, double clip_value);

}  // namespace mica::optim

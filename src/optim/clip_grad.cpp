#include "mica/optim/clip_grad.h"

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::optim {
namespace {

Tensors with_gradient(const Tensors& parameters) {
  Tensors some;
  for (const Tensor& p : parameters)
    if (p.grad().defined()) some.push_back(p);
  return some;
}

Tensors grads_of(const Tensors& parameters) {
  Tensors grads;
  for (const Tensor& p : parameters) grads.push_back(p.grad());
  return grads;
}

void set_grads(const Tensors& parameters, const Tensors& grads) {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(grads[i]);
}

}  // namespace

Tensor get_total_norm(const Tensors& tensors, double norm_type) {
  if (tensors.empty()) return zeros({});
  if (norm_type == 2) return total_norm(tensors);
  Tensors norms;
  for (const Tensor& t : tensors) norms.push_back(linalg::vector_norm(t, norm_type));
  return linalg::vector_norm(stack(norms), norm_type);
}

Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, double norm_type) {
  check(max_norm >= 0, "optim::clip_grad_norm_: max_norm must not be negative, got {}", max_norm);
  const NoGrad guard;
  const Tensors some = with_gradient(parameters);
  if (some.empty())
    return zeros({}, {.device = parameters.empty() ? Device() : parameters[0].device()});
  const Tensors grads = grads_of(some);
  const Tensor norm = get_total_norm(grads, norm_type);
  set_grads(some, clip_by_norm(norm, grads, max_norm));
  return norm;
}

void clip_grad_value_(const Tensors& parameters, double clip_value) {
  check(clip_value >= 0, "optim::clip_grad_value_: clip_value must not be negative, got {}",
        clip_value);
  const NoGrad guard;
  const Tensors some = with_gradient(parameters);
  set_grads(some, clip_by_value(grads_of(some), clip_value));
}

}  // namespace mica::optim

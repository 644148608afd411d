#include "mica/optim/sgd.h"

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::optim {

SGD::SGD(Tensors parameters, const SGDOptions& options)
    : options_(options), parameters_(std::move(parameters)) {
  check(!parameters_.empty(), "optim::SGD: expected parameters, got none");
  check(options_.momentum >= 0 && options_.weight_decay >= 0,
        "optim::SGD: momentum and weight_decay must not be negative, got {} and {}",
        options_.momentum, options_.weight_decay);
  check(!options_.nesterov || (options_.momentum > 0 && options_.dampening == 0),
        "optim::SGD: nesterov needs momentum and no dampening, got {} and {}", options_.momentum,
        options_.dampening);
  const Device device = parameters_[0].device();
  for (const Tensor& p : parameters_) {
    check<DeviceError>(p.device() == device,
                       "optim::SGD: parameters must be on one device, got {} and {}", device,
                       p.device());
    if (options_.momentum == 0) continue;
    momenta_.push_back(empty(p.spec()));
    fill_(momenta_.back(), 0);
  }
  lr_ = zeros({}, {.dtype = DType::f32, .device = device});
  set_lr(options_.lr);
}

void SGD::step() {
  const NoGrad guard;
  Tensors parameters;
  Tensors grads;
  Tensors momenta;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor grad = parameters_[i].grad();
    if (!parameters_[i].requires_grad() || !grad.defined()) continue;
    parameters.push_back(parameters_[i]);
    grads.push_back(grad);
    if (!momenta_.empty()) momenta.push_back(momenta_[i]);
  }
  sgd_update(lr_, parameters, grads, momenta,
             {.momentum = options_.momentum,
              .dampening = options_.dampening,
              .weight_decay = options_.weight_decay,
              .nesterov = options_.nesterov});
}

void SGD::zero_grad() {
  for (const Tensor& p : parameters_) p.set_grad({});
}

void SGD::set_lr(double lr) {
  check(lr >= 0, "optim::SGD: lr must not be negative, got {}", lr);
  options_.lr = lr;
  fill_(lr_, lr);
}

}  // namespace mica::optim

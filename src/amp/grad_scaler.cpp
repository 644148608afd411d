#include "mica/amp/grad_scaler.h"

#include <algorithm>
#include <cmath>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/ops/ops.h"

namespace mica::amp {

namespace {

GradScalerOptions checked(const GradScalerOptions& options) {
  check(options.init_scale > 0 && std::isfinite(options.init_scale),
        "amp::GradScaler: init_scale must be positive, got {}", options.init_scale);
  check(options.growth_factor > 1, "amp::GradScaler: growth_factor must be above 1, got {}",
        options.growth_factor);
  check(options.backoff_factor > 0 && options.backoff_factor < 1,
        "amp::GradScaler: backoff_factor must be between 0 and 1, got {}", options.backoff_factor);
  check(options.growth_interval > 0, "amp::GradScaler: growth_interval must be positive, got {}",
        options.growth_interval);
  return options;
}

}  // namespace

GradScaler::GradScaler(Device device, const GradScalerOptions& options)
    : options_(checked(options)),
      scale_(full({}, options.init_scale, {.dtype = DType::f32, .device = device})),
      growth_tracker_(zeros({}, {.dtype = DType::i64, .device = device})) {}

Tensor GradScaler::scale(const Tensor& loss) const {
  return options_.enabled ? loss * scale_ : loss;
}

GradScaler::Unscaled* GradScaler::find(const optim::Optimizer& optimizer) {
  const auto at = std::find_if(unscaled_.begin(), unscaled_.end(),
                               [&](const Unscaled& u) { return u.optimizer == &optimizer; });
  return at == unscaled_.end() ? nullptr : &*at;
}

void GradScaler::unscale(const optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  check(!find(optimizer), "amp::GradScaler::unscale: called twice since the last update()");
  const NoGrad guard;
  Tensors parameters;
  Tensors grads;
  for (const Tensor& p : optimizer.parameters()) {
    const Tensor grad = p.grad();
    if (!grad.defined()) continue;
    parameters.push_back(p);
    grads.push_back(grad);
  }
  check(!grads.empty(), "amp::GradScaler: no parameter of the optimizer has a gradient");
  // Added up in double: infinite only where a gradient is.
  const Tensor finite = isfinite(total_norm(grads));
  const Tensors back = scale_tensors(reciprocal(scale_), grads);
  for (size_t i = 0; i < back.size(); ++i) parameters[i].set_grad(back[i]);
  unscaled_.push_back({&optimizer, finite});
}

void GradScaler::step(optim::Optimizer& optimizer) {
  if (!options_.enabled) return optimizer.step();
  if (!find(optimizer)) unscale(optimizer);
  Unscaled& unscaled = *find(optimizer);
  check(!unscaled.stepped, "amp::GradScaler::step: called twice since the last update()");
  optimizer.step(unscaled.finite);
  unscaled.stepped = true;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  check(!unscaled_.empty(), "amp::GradScaler::update: no step since the last one");
  const NoGrad guard;
  Tensor finite = unscaled_[0].finite;
  for (size_t i = 1; i < unscaled_.size(); ++i) finite = logical_and(finite, unscaled_[i].finite);
  unscaled_.clear();
  const Tensor count = growth_tracker_ + 1;
  const Tensor grown = scale_ * options_.growth_factor;
  // Not eq: the interval may be a shorter one since.
  const Tensor grows = ge(count, options_.growth_interval);
  const Tensor kept = where(logical_and(grows, isfinite(grown)), grown, scale_);
  const Tensor none = zeros_like(count);
  copy_(scale_, where(finite, kept, scale_ * options_.backoff_factor));
  copy_(growth_tracker_, where(logical_and(finite, logical_not(grows)), count, none));
}

double GradScaler::get_scale() const { return options_.enabled ? scale_.item() : 1.0; }

void GradScaler::set_scale(double scale) {
  check(scale > 0 && std::isfinite(scale), "amp::GradScaler: a scale must be positive, got {}",
        scale);
  const NoGrad guard;
  fill_(scale_, scale);
}

// What update() computes with is a constant in a compiled function.
void GradScaler::set_options(const GradScalerOptions& options) {
  if (options == options_) return;
  options_ = checked(options);
  scale_.storage()->note_replacement();
}

void GradScaler::set_growth_factor(double new_factor) {
  GradScalerOptions options = options_;
  options.growth_factor = new_factor;
  set_options(options);
}
void GradScaler::set_backoff_factor(double new_factor) {
  GradScalerOptions options = options_;
  options.backoff_factor = new_factor;
  set_options(options);
}
void GradScaler::set_growth_interval(int64_t new_interval) {
  GradScalerOptions options = options_;
  options.growth_interval = new_interval;
  set_options(options);
}

std::map<std::string, Tensor> GradScaler::state_dict() const {
  return {{"scale", scale_}, {"growth_tracker", growth_tracker_}};
}

void GradScaler::load_state_dict(const std::map<std::string, Tensor>& state) {
  const auto own = state_dict();
  for (const auto& [name, tensor] : own) {
    const auto given = state.find(name);
    check(given != state.end(), "amp::GradScaler: the state has no \"{}\"", name);
    check<ShapeError>(given->second.numel() == 1,
                      "amp::GradScaler: \"{}\" must be one number, got {}", name,
                      given->second.spec());
  }
  const NoGrad guard;
  for (const auto& [name, tensor] : own) copy_(tensor, reshape(state.at(name), {}));
}

}  // namespace mica::amp

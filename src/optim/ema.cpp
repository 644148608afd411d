#include "mica/optim/ema.h"

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::optim {
namespace {

/// In f32 what has fewer bits.
Tensor widened(const Tensor& t) {
  return t.dtype() == DType::f16 || t.dtype() == DType::bf16 ? cast(t, DType::f32) : t;
}

}  // namespace

EMA::EMA(Tensors parameters, const EMAOptions& options)
    : options_(options), parameters_(std::move(parameters)) {
  check(options.decay >= 0 && options.decay <= 1, "optim::EMA: decay must be in [0, 1], got {}",
        options.decay);
  check(!parameters_.empty(), "optim::EMA: expected parameters, got none");
  const NoGrad guard;
  const Device device = parameters_[0].device();
  for (const Tensor& p : parameters_) {
    check(p.defined() && is_floating(p.dtype()), "optim::EMA: expected floating parameters, got {}",
          p.defined() ? to_string(p.spec()) : "an undefined tensor");
    check<DeviceError>(p.device() == device,
                       "optim::EMA: parameters must be on one device, got {} and {}", device,
                       p.device());
    averages_.push_back(clone(widened(p.detach())));
  }
  const TensorOptions number{.dtype = DType::i64, .device = device};
  count_ = {zeros({}, number), zeros({}, number)};
  curve_ = to_tensor(std::span<const RateCurve>(), device);
  no_rates_ = zeros({0}, {.dtype = DType::f64, .device = device});
}

void EMA::update(const Tensor& where) {
  check(weights_.empty(), "optim::EMA: the averages are in the weights' place; restore() them");
  const NoGrad guard;
  schedule_lr(curve_, no_rates_, count_, no_rates_, where);
  Tensors values;
  for (const Tensor& p : parameters_) values.push_back(widened(p));
  ema_update(count_.number, averages_, values,
             {.decay = options_.decay, .warmup = options_.warmup});
}

void EMA::apply() {
  check(weights_.empty(), "optim::EMA: the averages are in the weights' place already");
  const NoGrad guard;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    weights_.push_back(clone(parameters_[i].detach()));
    copy_(parameters_[i], averages_[i]);
  }
}

void EMA::restore() {
  check(!weights_.empty(), "optim::EMA: the weights are in their place");
  const NoGrad guard;
  for (size_t i = 0; i < parameters_.size(); ++i) copy_(parameters_[i], weights_[i]);
  weights_.clear();
}

StateDict EMA::state_dict() const {
  StateDict state = {{"steps", count_.steps}};
  for (size_t i = 0; i < averages_.size(); ++i)
    state.emplace(fmt::format("{}.average", i), averages_[i]);
  return state;
}

void EMA::load_state_dict(const StateDict& state) {
  const StateDict own = state_dict();
  for (const auto& [key, value] : state) {
    const auto it = own.find(key);
    check(it != own.end(), "optim::EMA: load_state_dict: unexpected '{}'", key);
    check<ShapeError>(value.shape() == it->second.shape() && value.dtype() == it->second.dtype(),
                      "optim::EMA: load_state_dict: '{}' must be {}, got {}", key,
                      it->second.spec(), value.spec());
  }
  for (const auto& [key, mine] : own)
    check(state.contains(key), "optim::EMA: load_state_dict: '{}' is missing", key);
  const NoGrad guard;
  for (const auto& [key, value] : state) copy_(own.at(key), to(value, own.at(key).device()));
}

}  // namespace mica::optim

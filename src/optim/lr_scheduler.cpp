#include "mica/optim/lr_scheduler.h"

#include <cmath>
#include <limits>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::optim {

RateWriter::RateWriter(Optimizer& optimizer, const char* name)
    : optimizer_(optimizer), name_(name) {
  check(optimizer.schedule() == Schedule(),
        "{}: the optimizer follows a schedule of its own; set it to constant()", name);
  optimizer_.claim_rates(this);
}

void RateWriter::check_current() const {
  check(optimizer_.rates_writer() == this,
        "{}: another scheduler of this optimizer was made after it; join them into one, as "
        "SequentialLR and ChainedScheduler do",
        name_);
}

std::vector<double> RateWriter::get_last_lr() const {
  return optimizer_.base_rates().to_vector<double>();
}

void RateWriter::load_state_dict(const StateDict& state) {
  const StateDict own = state_dict();
  for (const auto& [key, value] : state) {
    const auto it = own.find(key);
    check(it != own.end(), "{}: load_state_dict: unexpected '{}'", name_, key);
    check<ShapeError>(value.shape() == it->second.shape() && value.dtype() == it->second.dtype(),
                      "{}: load_state_dict: '{}' must be {}, got {}", name_, key, it->second.spec(),
                      value.spec());
  }
  for (const auto& [key, mine] : own)
    check(state.contains(key), "{}: load_state_dict: '{}' is missing", name_, key);
  for (const auto& [key, value] : state) copy_(own.at(key), to(value, own.at(key).device()));
}

LRScheduler::LRScheduler(Optimizer& optimizer, Schedule schedule, int64_t last_epoch,
                         const std::optional<MomentumSchedule>& momentum)
    : RateWriter(optimizer, "optim::LRScheduler"), schedule_(std::move(schedule)) {
  check(last_epoch >= -1, "{}: last_epoch must be at least -1, got {}", name(), last_epoch);
  const Device device = optimizer.base_rates().device();
  curve_ = to_tensor(schedule_.pieces(), device);
  const TensorOptions number{.dtype = DType::i64, .device = device};
  count_ = {full({}, last_epoch + 1, number), zeros({}, number)};
  if (momentum) {
    momentum_curve_ = to_tensor(momentum->schedule.pieces(), device);
    momentum_base_ = full_like(optimizer.claim_momenta(), momentum->base);
    momentum_count_ = {clone(count_.steps), zeros({}, number)};
  }
  advance();
}

namespace {

void check_momenta(const char* name, double least, double most) {
  check(least > 0 && most < 1 && std::isfinite(most),
        "{}: expected momenta in (0, 1), got {} and {}", name, least, most);
}

}  // namespace

MomentumSchedule one_cycle_momentum(const OneCycleOptions& options, double least, double most) {
  check_momenta("optim::one_cycle_momentum", least, most);
  OneCycleOptions turned = options;
  turned.div_factor = least / most;
  turned.final_div_factor = 1;
  return {one_cycle(turned), least};
}

MomentumSchedule cyclic_momentum(const CyclicOptions& options, double least, double most) {
  check_momenta("optim::cyclic_momentum", least, most);
  CyclicOptions turned = options;
  turned.low = most / least;
  return {cyclic(turned), least};
}

void LRScheduler::advance() {
  schedule_lr(curve_, optimizer().initial_rates(), count_, optimizer().base_rates());
  if (momentum_curve_.defined())
    schedule_lr(momentum_curve_, momentum_base_, momentum_count_, optimizer().momenta());
}

void LRScheduler::step() {
  check_current();
  const NoGrad guard;
  advance();
}

int64_t LRScheduler::last_epoch() const { return count_.steps.to_vector<int64_t>()[0] - 1; }

StateDict LRScheduler::state_dict() const {
  StateDict state = {{"step", count_.steps},
                     {"initial_lr", optimizer().initial_rates()},
                     {"lr", optimizer().base_rates()},
                     {"schedule", curve_}};
  if (momentum_curve_.defined()) {
    state.emplace("momentum", optimizer().momenta());
    state.emplace("momentum_step", momentum_count_.steps);
    state.emplace("momentum_schedule", momentum_curve_);
  }
  return state;
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options)
    : RateWriter(optimizer, "optim::ReduceLROnPlateau"), options_(options) {
  check(options.factor >= 0 && options.factor < 1, "{}: factor must be in [0, 1), got {}", name(),
        options.factor);
  const TensorOptions number{.dtype = DType::f64, .device = optimizer.base_rates().device()};
  const double infinity = std::numeric_limits<double>::infinity();
  best_ = full({}, options.larger_is_better ? -infinity : infinity, number);
  bad_ = zeros({}, number);
  cooldown_ = zeros({}, number);
}

void ReduceLROnPlateau::step(double metric) {
  step(full({}, metric, {.dtype = DType::f64, .device = best_.device()}));
}

void ReduceLROnPlateau::step(const Tensor& metric) {
  check_current();
  const NoGrad guard;
  const PlateauOptions& o = options_;
  check<ShapeError>(metric.defined() && metric.numel() == 1,
                    "{}: the metric must be one number, got {}", name(),
                    metric.defined() ? to_string(metric.spec()) : "nothing");
  const Tensor now = cast(reshape(to(metric.detach(), best_.device()), {}), DType::f64);
  const double sign = o.larger_is_better ? 1 : -1;
  const Tensor limit =
      o.absolute ? add(best_, sign * o.threshold) : mul(best_, 1 + sign * o.threshold);
  const Tensor better = o.larger_is_better ? gt(now, limit) : lt(now, limit);
  const Tensor cooling = gt(cooldown_, 0);
  const Tensor bad = where(cooling, Number(0.0), where(better, Number(0.0), add(bad_, 1.0)));
  const Tensor cut = gt(bad, static_cast<double>(o.patience));
  const Tensor& rates = optimizer().base_rates();
  const Tensor lower = clamp(mul(rates, o.factor), o.min_lr, {});
  const Tensor chosen = where(gt(sub(rates, lower), o.eps), lower, rates);
  const Tensor left = sub(cooldown_, cast(cooling, DType::f64));
  copy_(rates, where(cut, chosen, rates));
  copy_(cooldown_, where(cut, Number(static_cast<double>(o.cooldown)), left));
  copy_(best_, where(better, now, best_));
  copy_(bad_, where(cut, Number(0.0), bad));
}

StateDict ReduceLROnPlateau::state_dict() const {
  return {{"best", best_},
          {"num_bad_epochs", bad_},
          {"cooldown_counter", cooldown_},
          {"lr", optimizer().base_rates()}};
}

}  // namespace mica::optim

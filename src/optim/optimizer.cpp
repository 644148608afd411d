#include "mica/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/scope.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/schedule_lr/schedule_lr.h"
#include "mica/ops/view/view.h"

namespace mica::optim {

void Optimizer::check_lr(double lr) const {
  check(lr >= 0 && std::isfinite(lr), "{}: lr must not be negative, got {}", name_, lr);
}

void Optimizer::add_group(const Tensors& parameters, double lr, const std::vector<State>& states) {
  check_lr(lr);
  check(!parameters.empty(), "{}: expected parameters in group {}, got none", name_,
        groups_.size());
  groups_.push_back({{}, {}, std::vector<Tensors>(states.size()), lr});
  Group& group = groups_.back();
  for (const State& state : states) group.names.push_back(state.name);
  for (const Tensor& p : parameters) {
    check(p.defined(), "{}: a parameter is undefined", name_);
    check<DTypeError>(is_floating(p.dtype()), "{}: parameters must be floating, got {}", name_,
                      p.spec());
    check(p.is_leaf(), "{}: expected leaves, got a result of another op ({})", name_, p.spec());
    for (const Group& other : groups_)
      for (const Tensor& q : other.parameters)
        check(p.impl() != q.impl(), "{}: a parameter ({}) is given twice", name_, p.spec());
    group.parameters.push_back(p);
    check<DeviceError>(p.device() == device(),
                       "{}: parameters must be on one device, got {} and {}", name_, device(),
                       p.device());
    for (size_t s = 0; s < states.size(); ++s) {
      group.states[s].push_back(empty_like(p));
      fill_(group.states[s].back(), states[s].initial);
    }
  }
}

void Optimizer::start() {
  check(!groups_.empty(), "{}: expected parameters, got none", name_);
  std::vector<double> rates;
  for (const Group& g : groups_) rates.push_back(g.lr);
  const auto groups = static_cast<int64_t>(rates.size());
  base_lr_ = tensor(rates, {groups}, device());
  lr_ = clone(base_lr_);
  step_ = zeros({}, {.dtype = DType::i64, .device = device()});
  curve_ = to_tensor(schedule_.curve(), device());
}

void Optimizer::step() {
  const NoGrad guard;
  const PhaseScope scope(Phase::update);
  schedule_lr(curve_, base_lr_, step_, lr_);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    Lists lists;
    lists.states.resize(group.states.size());
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const Tensor& p = group.parameters[i];
      const Tensor grad = p.grad();
      if (!p.requires_grad() || !grad.defined()) continue;
      lists.parameters.push_back(p);
      lists.grads.push_back(grad);
      for (size_t s = 0; s < group.states.size(); ++s)
        lists.states[s].push_back(group.states[s][i]);
    }
    if (lists.parameters.empty()) continue;
    update(g, groups_.size() == 1 ? lr_ : select(lr_, 0, static_cast<int64_t>(g)), step_, lists);
  }
}

void Optimizer::zero_grad() const {
  for (const Group& g : groups_)
    for (const Tensor& p : g.parameters) p.set_grad({});
}

Tensors Optimizer::parameters() const {
  Tensors all;
  for (const Group& g : groups_) all.insert(all.end(), g.parameters.begin(), g.parameters.end());
  return all;
}

size_t Optimizer::checked(size_t group) const {
  check<IndexError>(group < groups_.size(), "{}: expected a group below {}, got {}", name_,
                    groups_.size(), group);
  return group;
}

double Optimizer::lr(size_t group) const { return groups_[checked(group)].lr; }

void Optimizer::set_lr(double lr) {
  check_lr(lr);
  for (Group& g : groups_) g.lr = lr;
  fill_(base_lr_, lr);
}

void Optimizer::set_lr(size_t group, double lr) {
  check_lr(lr);
  groups_[checked(group)].lr = lr;
  fill_(select(base_lr_, 0, static_cast<int64_t>(group)), lr);
}

void Optimizer::set_schedule(const Schedule& schedule) {
  schedule_ = schedule;
  copy_(curve_, to_tensor(schedule.curve(), device()));
}

int64_t Optimizer::steps() const { return step_.to_vector<int64_t>()[0]; }

std::map<std::string, Tensor> Optimizer::state_dict() const {
  std::map<std::string, Tensor> state = {{"step", step_}, {"lr", base_lr_}, {"schedule", curve_}};
  size_t number = 0;
  for (const Group& g : groups_)
    for (size_t i = 0; i < g.parameters.size(); ++i, ++number)
      for (size_t s = 0; s < g.states.size(); ++s)
        state.emplace(fmt::format("{}.{}", number, g.names[s]), g.states[s][i]);
  return state;
}

void Optimizer::load_state_dict(const std::map<std::string, Tensor>& state) {
  const std::map<std::string, Tensor> own = state_dict();
  for (const auto& [key, value] : state) {
    const auto it = own.find(key);
    check(it != own.end(), "{}: load_state_dict: unexpected '{}'", name_, key);
    check(value.defined(), "{}: load_state_dict: '{}' is undefined", name_, key);
    const Tensor& mine = it->second;
    check<ShapeError>(value.shape() == mine.shape(),
                      "{}: load_state_dict: '{}' must have shape {}, got {}", name_, key,
                      mine.shape(), value.shape());
    check<DTypeError>(value.dtype() == mine.dtype(), "{}: load_state_dict: '{}' must be {}, got {}",
                      name_, key, mine.dtype(), value.dtype());
  }
  for (const auto& [key, mine] : own)
    check(state.contains(key), "{}: load_state_dict: '{}' {}{} is missing", name_, key,
          mine.dtype(), mine.shape());
  const std::vector<double> rates = state.at("lr").to_vector<double>();
  for (const double rate : rates) check_lr(rate);
  const Schedule schedule(to_rate_curve(state.at("schedule")));
  const NoGrad guard;
  for (const auto& [key, value] : state) copy_(own.at(key), to(value, device()));
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].lr = rates[g];
  schedule_ = schedule;
}

}  // namespace mica::optim

#include "mica/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/scope.h"
#include "mica/op/write_region.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::optim {
namespace {

bool is_half(const Tensor& t) { return t.dtype() == DType::f16 || t.dtype() == DType::bf16; }

}  // namespace

void Optimizer::check_same_states(size_t before, size_t after) const {
  check(before == after, "{}: this option decides which states there are; make another optimizer",
        name_);
}

void Optimizer::check_lr(double lr) const {
  check(std::isfinite(lr), "{}: lr must be finite, got {}", name_, lr);
}

void Optimizer::add_group(const Tensors& parameters, double lr, const std::vector<State>& states) {
  check_lr(lr);
  check(lr >= 0, "{}: lr must not be negative, got {}", name_, lr);  // a schedule may take it there
  check<Unsupported>(!momenta_.defined(),
                     "{}: no group can be added where a scheduler sets momenta", name_);
  check(!parameters.empty(), "{}: expected parameters in group {}, got none", name_,
        groups_.size());
  Group group{{}, {}, std::vector<Tensors>(states.size()), {}, lr};
  for (const State& state : states) group.names.push_back(state.name);
  const NoGrad guard;
  for (const Tensor& p : parameters) {
    check(p.defined(), "{}: a parameter is undefined", name_);
    check<DTypeError>(is_floating(p.dtype()), "{}: parameters must be floating, got {}", name_,
                      p.spec());
    check(p.is_leaf(), "{}: expected leaves, got a result of another op ({})", name_, p.spec());
    const auto given = [&](const Tensor& q) { return p.impl() == q.impl(); };
    bool twice = std::any_of(group.parameters.begin(), group.parameters.end(), given);
    for (const Group& other : groups_)
      twice = twice || std::any_of(other.parameters.begin(), other.parameters.end(), given);
    check(!twice, "{}: a parameter ({}) is given twice", name_, p.spec());
    group.parameters.push_back(p);
    const Device there = groups_.empty() ? group.parameters[0].device() : device();
    check<DeviceError>(p.device() == there, "{}: parameters must be on one device, got {} and {}",
                       name_, there, p.device());
    group.masters.push_back(is_half(p) ? cast(p.detach(), DType::f32) : Tensor());
    for (size_t s = 0; s < states.size(); ++s) {
      const Tensor& like = is_half(p) ? group.masters.back() : p;
      group.states[s].push_back(
          states[s].shape_of
              ? empty(states[s].shape_of(p.shape()), TensorOptions{like.dtype(), like.device()})
              : empty_like(like));
      fill_(group.states[s].back(), states[s].initial);
    }
  }
  groups_.push_back(std::move(group));
  if (base_lr_.defined()) {
    make_rates();
    options_changed();
  }
}

void Optimizer::make_rates() {
  std::vector<double> all;
  const std::vector<double> before = base_lr_.defined() ? rates() : std::vector<double>();
  for (size_t g = 0; g < groups_.size(); ++g)
    all.push_back(groups_[g].lr = g < before.size() ? before[g] : groups_[g].lr);
  base_lr_ = tensor(all, {static_cast<int64_t>(all.size())}, device());
  lr_ = clone(base_lr_);
  if (initial_lr_.defined())  // those that came later start from the rates they came with
    initial_lr_ = concat({initial_lr_, slice(base_lr_, 0, initial_lr_.numel(), base_lr_.numel())});
}

const Tensor& Optimizer::claim_momenta() {
  if (momenta_.defined()) return momenta_;
  std::vector<double> all;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::optional<double> own = claim_momentum(g);
    check<Unsupported>(own.has_value(), "{}: has no momentum that a scheduler could set", name_);
    all.push_back(*own);
  }
  momenta_ = tensor(all, {static_cast<int64_t>(all.size())}, device());
  options_changed();
  return momenta_;
}

Tensor Optimizer::momentum(size_t group) const {
  return momenta_.defined() ? select(momenta_, 0, static_cast<int64_t>(group)) : Tensor();
}

void Optimizer::add_group_state(size_t g, const State& state) {
  const NoGrad guard;
  Group& group = groups_[checked(g)];
  group.names.push_back(state.name);
  Tensors& tensors = group.states.emplace_back();
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const Tensor& master = group.masters[i];
    tensors.push_back(empty_like(master.defined() ? master : group.parameters[i].detach()));
    fill_(tensors.back(), state.initial);
  }
}

void Optimizer::claim_rates(const void* writer) {
  rates_writer_ = writer;
  if (!initial_lr_.defined()) initial_lr_ = clone(base_lr_);
}

void Optimizer::start() {
  check(!groups_.empty(), "{}: expected parameters, got none", name_);
  make_rates();
  const TensorOptions number{.dtype = DType::i64, .device = device()};
  count_ = {zeros({}, number), zeros({}, number)};
  curve_ = to_tensor(schedule_.pieces(), device());
}

void Optimizer::options_changed() { same_ = Same(); }

void Optimizer::add_state(std::string name, Tensor state) {
  more_states_.emplace_back(std::move(name), std::move(state));
}

void Optimizer::count_step() { schedule_lr(curve_, base_lr_, count_, lr_); }

void Optimizer::step(const Tensor& where) {
  const NoGrad guard;
  const PhaseScope scope(Phase::update);
  if (Recorder* recorder = current_recorder()) recorder->depends_on(same_.flag);
  schedule_lr(curve_, base_lr_, count_, lr_, where);
  std::optional<WriteRegion> region;
  if (where.defined()) region.emplace(where, count_.number);
  for (size_t g = 0; g < groups_.size(); ++g) step_group(g);
}

void Optimizer::step_group(size_t g) {
  const Group& group = groups_[g];
  Lists plain;
  Lists half;
  plain.states.resize(group.states.size());
  half.states.resize(group.states.size());
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor grad = p.grad();
    if (!p.requires_grad() || !grad.defined()) continue;
    Lists& lists = group.masters[i].defined() ? half : plain;
    lists.parameters.push_back(p);
    lists.grads.push_back(grad);
    if (group.masters[i].defined()) lists.masters.push_back(group.masters[i]);
    for (size_t s = 0; s < group.states.size(); ++s) lists.states[s].push_back(group.states[s][i]);
  }
  if (plain.parameters.empty() && half.parameters.empty()) return;
  begin_update(g);
  if (!plain.parameters.empty()) run_update(g, plain);
  if (half.parameters.empty()) return;
  if (!works_on_masters()) return run_update(g, half);
  Lists wide{half.masters, {}, half.states, {}};
  for (size_t i = 0; i < half.parameters.size(); ++i) {
    const Tensor& p = half.parameters[i];
    const Tensor& master = half.masters[i];
    copy_(master, where(eq(cast(master, p.dtype()), p), master, cast(p, DType::f32)));
    wide.grads.push_back(cast(half.grads[i], DType::f32));
  }
  run_update(g, wide);
  for (size_t i = 0; i < half.parameters.size(); ++i) copy_(half.parameters[i], half.masters[i]);
}

/// A handle that a region of writes does not take for its number.
Tensor Optimizer::step_number() const { return reshape(count_.number, {}); }

void Optimizer::run_update(size_t g, const Lists& lists) {
  const Tensor step = works_on_masters() ? step_number() : count_.number;
  update(g, groups_.size() == 1 ? lr_ : select(lr_, 0, static_cast<int64_t>(g)), step, lists);
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

std::vector<double> Optimizer::rates() const {
  if (rates_writer_) return base_lr_.to_vector<double>();
  std::vector<double> all;
  for (const Group& g : groups_) all.push_back(g.lr);
  all.resize(static_cast<size_t>(base_lr_.numel()));
  return all;
}

double Optimizer::lr(size_t group) const { return rates()[checked(group)]; }

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

void Optimizer::set_current_lr(size_t group, double lr) {
  check_lr(lr);
  if (schedule_ == Schedule()) return set_lr(group, lr);
  // Every schedule gives a rate that is a line over the base rate.
  const int64_t done = steps();
  const double offset = schedule_.lr_at(0, done);
  const double slope = schedule_.lr_at(1, done) - offset;
  check(slope != 0 && (lr - offset) / slope >= 0,
        "{}: the schedule gives {} at step {}, whatever the base rate; set the schedule", name_,
        offset, done);
  set_lr(group, (lr - offset) / slope);
}

void Optimizer::set_schedule(const Schedule& schedule) {
  schedule_ = schedule;
  copy_(curve_, to_tensor(schedule.pieces(), device()));
}

int64_t Optimizer::steps() const { return count_.steps.to_vector<int64_t>()[0]; }

StateDict Optimizer::state_dict() const {
  StateDict state = {{"step", count_.steps}, {"lr", base_lr_}, {"schedule", curve_}};
  for (const auto& [name, tensor] : more_states_) state.emplace(name, tensor);
  size_t number = 0;
  for (const Group& g : groups_)
    for (size_t i = 0; i < g.parameters.size(); ++i, ++number) {
      if (g.masters[i].defined()) state.emplace(fmt::format("{}.master", number), g.masters[i]);
      for (size_t s = 0; s < g.states.size(); ++s)
        state.emplace(fmt::format("{}.{}", number, g.names[s]), g.states[s][i]);
    }
  return state;
}

void Optimizer::load_state_dict(const StateDict& state) {
  const StateDict own = Optimizer::state_dict();
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
  const Schedule schedule(to_rate_curves(state.at("schedule")));
  const NoGrad guard;
  for (const auto& [key, value] : state) copy_(own.at(key), to(value, device()));
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].lr = rates[g];
  schedule_ = schedule;
}

Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) = default;
Optimizer& Optimizer::operator=(Optimizer&&) = default;

}  // namespace mica::optim

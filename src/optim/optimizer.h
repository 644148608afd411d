#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mica/core/state_dict.h"
#include "mica/ops/schedule_lr/schedule_lr.h"
#include "mica/optim/schedule.h"

namespace mica::optim {

/// Parameters that share options: `SGD({{.parameters = a}, {.parameters = b, .options = {.lr =
/// 1}}})`.
template <class Options>
struct ParameterGroup {
  Tensors parameters;
  Options options = {};
};

/// What all optimizers have. Step count, learning rates and schedule lie in device memory: a
/// compiled step advances them itself and sees what the host sets. Make an optimizer after the
/// module was moved to its device.
///
/// Parameters in half precision have states in f32 and a master, the parameter in f32, which the
/// update works on. A value written to the parameter goes before the master's.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  /// Before a Trainer, a scheduler or a compiled step refers to it.
  Optimizer(Optimizer&&);

  /// Updates every parameter that requires a gradient and has one: one launch per group. The count
  /// of steps is the optimizer's, not the parameter's. Where `where`, one bool on the device, is
  /// given and false nothing happens: no parameter, state, step count or rate changes.
  void step(const Tensor& where = {});
  /// Makes all gradients undefined.
  void zero_grad() const;
  Tensors parameters() const;
  const Tensors& parameters(size_t group) const { return groups_[checked(group)].parameters; }

  size_t groups() const { return groups_.size(); }
  /// The base rate of a group, which the schedule starts from. Waits for the device where an
  /// LRScheduler sets it there.
  double lr(size_t group = 0) const;
  /// Of every group.
  void set_lr(double lr);
  void set_lr(size_t group, double lr);
  const Schedule& schedule() const { return schedule_; }
  void set_schedule(const Schedule& schedule);

  /// How many steps were made; waits for the device.
  int64_t steps() const;
  /// The rate that the next step uses; waits for the device.
  double current_lr(size_t group = 0) const { return schedule_.lr_at(lr(group), steps()); }
  /// Sets the base rate so that the next step uses this one; waits for the device. Raises where the
  /// schedule gives one rate whatever the base, as a line does that has come to zero.
  void set_current_lr(size_t group, double lr);
  /// The base rates in device memory, f64 [groups].
  const Tensor& base_rates() const { return base_lr_; }
  /// For who writes to base_rates() from now on: lr() then looks there.
  void claim_rates(const void* writer);
  /// The rates that the first who claimed them found.
  const Tensor& initial_rates() const { return initial_lr_; }
  /// Who claimed them last.
  const void* rates_writer() const { return rates_writer_; }

  /// For who sets the momenta from now on, in device memory: f64 [groups], which begin as the
  /// groups' own. Updates are then made with ops that read them there. Raises Unsupported for
  /// optimizers that cannot.
  const Tensor& claim_momenta();
  /// Undefined where nobody claimed them.
  const Tensor& momenta() const { return momenta_; }

  /// Handles to the state itself: "step", "lr" (of each group), "schedule" and for each parameter,
  /// by its number, "0.momentum" and the like. clone() what is to be kept.
  virtual StateDict state_dict() const;
  /// Copies values into the optimizer's own state, after which it continues where the other was. A
  /// missing, unknown or misshapen entry raises, and then nothing was changed.
  virtual void load_state_dict(const StateDict& state);

 protected:
  /// Of one kind of optimizer. A compiled step that refers to this one is captured again.
  Optimizer& operator=(Optimizer&& other);

  /// A tensor that the optimizer keeps for each parameter.
  struct State {
    std::string name;
    double initial = 0;
    Shape (*shape_of)(const Shape& parameter) =
        nullptr;  ///< the parameter's own where there is none
  };
  /// The parameters of a group that are to be updated, with what belongs to them.
  struct Lists {
    Tensors parameters;
    Tensors grads;
    std::vector<Tensors> states;  ///< in the order of add_group
    Tensors masters;              ///< of parameters in half precision, else empty
  };

  explicit Optimizer(std::string name) : name_(std::move(name)) {}

  /// Constructors call it once per group, in order, and then start(); later it adds a group.
  void add_group(const Tensors& parameters, double lr, const std::vector<State>& states);
  void start();
  /// Says that what update() does is another thing now: compiled steps are captured again.
  void options_changed();
  /// For a step that is not by update(): counts it.
  void count_step();
  /// For options that may be set: those that decide which states there are may not.
  void check_same_states(size_t before, size_t after) const;
  /// A further tensor of the optimizer's state, under a name of its own.
  void add_state(std::string name, Tensor state);
  /// Before the parameters of a group are updated, which may be in two calls: those in half
  /// precision are apart.
  virtual void begin_update(size_t /*group*/) {}
  /// The number of the step, i64 [], for other ops than updates.
  Tensor step_number() const;
  /// Updates the parameters of a group. lr: f64, one number. step: i64 [], this one's number, from
  /// 1.
  virtual void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) = 0;
  /// The momentum of a group, for claim_momenta; it may add the state that it needs. Without one,
  /// none.
  virtual std::optional<double> claim_momentum(size_t /*group*/) { return {}; }
  /// Adds a tensor for each parameter of a group to its states.
  void add_group_state(size_t group, const State& state);
  /// f64 [], where it was claimed; undefined otherwise.
  Tensor momentum(size_t group) const;
  /// Whether update() is written with ops that know no masters: it gets them in place of the
  /// parameters in half precision, with gradients in f32.
  virtual bool works_on_masters() const { return false; }

  /// The number of a group; raises IndexError where there is none.
  size_t checked(size_t group) const;
  /// "optim::SGD", for messages.
  const char* name() const { return name_.c_str(); }
  Device device() const { return groups_[0].parameters[0].device(); }

 private:
  struct Group {
    Tensors parameters;
    std::vector<std::string> names;
    std::vector<Tensors> states;
    Tensors masters;  ///< undefined for parameters that need none
    double lr;
  };

  void check_lr(double lr) const;
  void make_rates();
  void step_group(size_t group);
  void run_update(size_t group, const Lists& lists);
  std::vector<double> rates() const;

  std::string name_;
  std::vector<Group> groups_;
  std::vector<std::pair<std::string, Tensor>> more_states_;
  Schedule schedule_;
  Tensor curve_;       ///< the schedule
  Tensor base_lr_;     ///< f64 [groups]
  Tensor lr_;          ///< f64 [groups], of this step
  StepCount count_;    ///< its number is 0 where the step is left out
  Tensor initial_lr_;  ///< f64 [groups], where somebody claimed the rates
  Tensor momenta_;     ///< f64 [groups], likewise
  const void* rates_writer_ = nullptr;
  /// What compiled steps depend on: false when options changed, or it is another optimizer's.
  struct Same {
    std::shared_ptr<bool> flag = std::make_shared<bool>(true);
    Same() = default;
    Same(Same&&) = default;
    Same& operator=(Same&& other) noexcept {
      if (flag) *flag = false;
      flag = std::move(other.flag);
      return *this;
    }
    ~Same() = default;
  };
  Same same_;
};

/// An optimizer whose groups have options of one type, which has a field `lr`.
template <class O>
class OptimizerWith : public Optimizer {
 public:
  using Options = O;
  using Group = ParameterGroup<Options>;

  /// As they were given or set; lr(group) is the rate now.
  const Options& options(size_t group = 0) const { return options_[checked(group)]; }
  /// All but the rate, which set_lr sets. Those that decide which states there are stay. A compiled
  /// step is captured again.
  void set_options(size_t group, const Options& options);
  void add_param_group(const Group& group);

 protected:
  explicit OptimizerWith(std::string name) : Optimizer(std::move(name)) {}
  /// What constructors call.
  void add_groups(const std::vector<Group>& groups) {
    for (const Group& group : groups) add_param_group(group);
    start();
  }
  virtual void check_options(const Options& options) const = 0;
  virtual std::vector<State> states_for(const Options& options) const = 0;
  /// Parameters that it cannot take raise.
  virtual void check_parameters(const Tensors& /*parameters*/) const {}
  /// For what it keeps of a group.
  virtual void group_added(size_t /*group*/) {}

 private:
  std::vector<Options> options_;
};

template <class Options>
void OptimizerWith<Options>::set_options(size_t group, const Options& options) {
  check_options(options);
  Options& own = options_[checked(group)];
  check_same_states(states_for(own).size(), states_for(options).size());
  const double lr = own.lr;
  own = options;
  own.lr = lr;
  options_changed();
}

template <class Options>
void OptimizerWith<Options>::add_param_group(const Group& group) {
  check_options(group.options);
  check_parameters(group.parameters);
  add_group(group.parameters, group.options.lr, states_for(group.options));
  options_.push_back(group.options);
  group_added(options_.size() - 1);
}

}  // namespace mica::optim

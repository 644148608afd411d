#pragma once

#include <map>
#include <string>
#include <vector>

#include "mica/core/tensor.h"
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
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that requires a gradient and has one: one launch per group. The count
  /// of steps is the optimizer's, not the parameter's.
  void step();
  /// Makes all gradients undefined.
  void zero_grad() const;
  Tensors parameters() const;
  const Tensors& parameters(size_t group) const { return groups_[checked(group)].parameters; }

  size_t groups() const { return groups_.size(); }
  /// The base rate of a group, which the schedule starts from.
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

  /// Handles to the state itself: "step", "lr" (of each group), "schedule" and for each parameter,
  /// by its number, "0.momentum" and the like. clone() what is to be kept.
  std::map<std::string, Tensor> state_dict() const;
  /// Copies values into the optimizer's own state, after which it continues where the other was. A
  /// missing, unknown or misshapen entry raises, and then nothing was changed.
  void load_state_dict(const std::map<std::string, Tensor>& state);

 protected:
  /// A tensor that the optimizer keeps for each parameter.
  struct State {
    const char* name;
    double initial = 0;
  };
  /// The parameters of a group that are to be updated, with what belongs to them.
  struct Lists {
    Tensors parameters;
    Tensors grads;
    std::vector<Tensors> states;  ///< in the order of add_group
  };

  explicit Optimizer(const char* name) : name_(name) {}

  /// Constructors call it once per group, in order, and then start().
  void add_group(const Tensors& parameters, double lr, const std::vector<State>& states);
  void start();
  /// Updates the parameters of a group. step: i64 [], this one's number, from 1.
  virtual void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) = 0;

  /// The number of a group; raises IndexError where there is none.
  size_t checked(size_t group) const;
  /// "optim::SGD", for messages.
  const char* name() const { return name_; }

 private:
  struct Group {
    Tensors parameters;
    std::vector<const char*> names;
    std::vector<Tensors> states;
    double lr;
  };

  void check_lr(double lr) const;
  Device device() const { return groups_[0].parameters[0].device(); }

  const char* name_;
  std::vector<Group> groups_;
  Schedule schedule_;
  Tensor curve_;    ///< the schedule
  Tensor base_lr_;  ///< f64 [groups]
  Tensor lr_;       ///< f64 [groups], of this step
  Tensor step_;     ///< i64 []
};

}  // namespace mica::optim

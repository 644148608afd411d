#include "mica/optim/adam.h"

#include "mica/core/check.h"
#include "mica/ops/optimizer_update/optimizer_update.h"
#include "mica/optim/betas.h"

namespace mica::optim {
namespace {

template <class Options>
void check_adam(const char* name, const Options& o) {
  check_betas(name, o.betas);
  check(o.eps >= 0, "{}: eps must not be negative, got {}", name, o.eps);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name, o.weight_decay);
}

template <class State, class Options>
std::vector<State> adam_states(const Options& o) {
  std::vector<State> states = {{"exp_avg"}, {"exp_avg_sq"}};
  if (o.amsgrad) states.push_back({"max_exp_avg_sq"});
  return states;
}

template <class Options, class Lists>
void update_adam(const Options& o, bool decoupled, const Tensor& lr, const Tensor& step,
                 const Lists& lists) {
  adam_update(lr, step, lists.parameters, lists.grads,
              {lists.states[0], lists.states[1], o.amsgrad ? lists.states[2] : Tensors()},
              {.beta1 = o.betas[0],
               .beta2 = o.betas[1],
               .eps = o.eps,
               .weight_decay = o.weight_decay,
               .decoupled = decoupled,
               .amsgrad = o.amsgrad},
              lists.masters);
}

}  // namespace

Adam::Adam(Tensors parameters, const AdamOptions& options)
    : Adam(std::vector<Group>{{std::move(parameters), options}}) {}

Adam::Adam(const std::vector<Group>& groups) : OptimizerWith("optim::Adam") { add_groups(groups); }

void Adam::check_options(const AdamOptions& o) const { check_adam(name(), o); }

std::vector<Optimizer::State> Adam::states_for(const AdamOptions& o) const {
  return adam_states<State>(o);
}

void Adam::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  update_adam(options(group), false, lr, step, lists);
}

AdamW::AdamW(Tensors parameters, const AdamWOptions& options)
    : AdamW(std::vector<Group>{{std::move(parameters), options}}) {}

AdamW::AdamW(const std::vector<Group>& groups) : OptimizerWith("optim::AdamW") {
  add_groups(groups);
}

void AdamW::check_options(const AdamWOptions& o) const { check_adam(name(), o); }

std::vector<Optimizer::State> AdamW::states_for(const AdamWOptions& o) const {
  return adam_states<State>(o);
}

void AdamW::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  update_adam(options(group), true, lr, step, lists);
}

}  // namespace mica::optim

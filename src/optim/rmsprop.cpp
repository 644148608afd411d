#include "mica/optim/rmsprop.h"

#include "mica/core/check.h"
#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::optim {

RMSprop::RMSprop(Tensors parameters, const RMSpropOptions& options)
    : RMSprop(std::vector<Group>{{std::move(parameters), options}}) {}

RMSprop::RMSprop(const std::vector<Group>& groups) : OptimizerWith("optim::RMSprop") {
  add_groups(groups);
}

void RMSprop::check_options(const RMSpropOptions& o) const {
  check(o.alpha >= 0 && o.alpha <= 1, "{}: alpha must be in [0, 1], got {}", name(), o.alpha);
  check(o.eps >= 0, "{}: eps must not be negative, got {}", name(), o.eps);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
  check(o.momentum >= 0, "{}: momentum must not be negative, got {}", name(), o.momentum);
}

std::vector<Optimizer::State> RMSprop::states_for(const RMSpropOptions& o) const {
  std::vector<State> states = {{"square_avg"}};
  if (o.momentum != 0) states.push_back({"momentum"});
  if (o.centered) states.push_back({"grad_avg"});
  return states;
}

void RMSprop::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const RMSpropOptions& o = options(group);
  rmsprop_update(lr, lists.parameters, lists.grads,
                 {.square_avg = lists.states[0],
                  .momentum = o.momentum != 0 ? lists.states[1] : Tensors(),
                  .grad_avg = o.centered ? lists.states.back() : Tensors()},
                 {.alpha = o.alpha,
                  .eps = o.eps,
                  .weight_decay = o.weight_decay,
                  .momentum = o.momentum,
                  .centered = o.centered},
                 step, lists.masters);
}

}  // namespace mica::optim

#include "mica/optim/rmsprop.h"

#include "mica/core/check.h"
#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::optim {

RMSprop::RMSprop(Tensors parameters, const RMSpropOptions& options)
    : RMSprop(std::vector<Group>{{std::move(parameters), options}}) {}

RMSprop::RMSprop(const std::vector<Group>& groups) : Optimizer("optim::RMSprop") {
  for (const auto& [parameters, o] : groups) {
    check(o.alpha >= 0 && o.alpha <= 1, "{}: alpha must be in [0, 1], got {}", name(), o.alpha);
    check(o.eps >= 0, "{}: eps must not be negative, got {}", name(), o.eps);
    check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
          o.weight_decay);
    check(o.momentum >= 0, "{}: momentum must not be negative, got {}", name(), o.momentum);
    std::vector<State> states = {{"square_avg"}};
    if (o.momentum != 0) states.push_back({"momentum"});
    if (o.centered) states.push_back({"grad_avg"});
    add_group(parameters, o.lr, states);
    options_.push_back(o);
  }
  start();
}

void RMSprop::update(size_t group, const Tensor& lr, const Tensor&, const Lists& lists) {
  const RMSpropOptions& o = options_[group];
  rmsprop_update(lr, lists.parameters, lists.grads,
                 {.square_avg = lists.states[0],
                  .momentum = o.momentum != 0 ? lists.states[1] : Tensors(),
                  .grad_avg = o.centered ? lists.states.back() : Tensors()},
                 {.alpha = o.alpha,
                  .eps = o.eps,
                  .weight_decay = o.weight_decay,
                  .momentum = o.momentum,
                  .centered = o.centered});
}

}  // namespace mica::optim

#include "mica/optim/lion.h"

#include "mica/core/check.h"
#include "mica/ops/optimizer_update/optimizer_update.h"
#include "mica/optim/betas.h"

namespace mica::optim {

Lion::Lion(Tensors parameters, const LionOptions& options)
    : Lion(std::vector<Group>{{std::move(parameters), options}}) {}

Lion::Lion(const std::vector<Group>& groups) : OptimizerWith("optim::Lion") { add_groups(groups); }

void Lion::check_options(const LionOptions& o) const {
  check_betas(name(), o.betas);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
}

std::vector<Optimizer::State> Lion::states_for(const LionOptions&) const { return {{"exp_avg"}}; }

void Lion::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const LionOptions& o = options(group);
  lion_update(lr, lists.parameters, lists.grads, lists.states[0],
              {.beta1 = o.betas[0], .beta2 = o.betas[1], .weight_decay = o.weight_decay}, step,
              lists.masters);
}

}  // namespace mica::optim

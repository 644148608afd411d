#include "mica/optim/radam.h"

#include "mica/core/check.h"
#include "mica/ops/optimizer_update/optimizer_update.h"
#include "mica/optim/betas.h"

namespace mica::optim {

RAdam::RAdam(Tensors parameters, const RAdamOptions& options)
    : RAdam(std::vector<Group>{{std::move(parameters), options}}) {}

RAdam::RAdam(const std::vector<Group>& groups) : OptimizerWith("optim::RAdam") {
  add_groups(groups);
}

void RAdam::check_options(const RAdamOptions& o) const {
  check_betas(name(), o.betas);
  check(o.eps >= 0, "{}: eps must not be negative, got {}", name(), o.eps);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
}

std::vector<Optimizer::State> RAdam::states_for(const RAdamOptions&) const {
  return {{"exp_avg"}, {"exp_avg_sq"}};
}

void RAdam::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const RAdamOptions& o = options(group);
  radam_update(lr, step, lists.parameters, lists.grads, lists.states[0], lists.states[1],
               {.beta1 = o.betas[0],
                .beta2 = o.betas[1],
                .eps = o.eps,
                .weight_decay = o.weight_decay,
                .decoupled = o.decoupled_weight_decay},
               lists.masters);
}

}  // namespace mica::optim

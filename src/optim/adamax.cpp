#include "mica/optim/adamax.h"

#include "mica/core/check.h"
#include "mica/ops/optimizer_update/optimizer_update.h"
#include "mica/optim/betas.h"

namespace mica::optim {

Adamax::Adamax(Tensors parameters, const AdamaxOptions& options)
    : Adamax(std::vector<Group>{{std::move(parameters), options}}) {}

Adamax::Adamax(const std::vector<Group>& groups) : OptimizerWith("optim::Adamax") {
  add_groups(groups);
}

void Adamax::check_options(const AdamaxOptions& o) const {
  check_betas(name(), o.betas);
  check(o.eps >= 0, "{}: eps must not be negative, got {}", name(), o.eps);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
}

std::vector<Optimizer::State> Adamax::states_for(const AdamaxOptions&) const {
  return {{"exp_avg"}, {"exp_inf"}};
}

void Adamax::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const AdamaxOptions& o = options(group);
  adamax_update(
      lr, step, lists.parameters, lists.grads, lists.states[0], lists.states[1],
      {.beta1 = o.betas[0], .beta2 = o.betas[1], .eps = o.eps, .weight_decay = o.weight_decay},
      lists.masters);
}

}  // namespace mica::optim

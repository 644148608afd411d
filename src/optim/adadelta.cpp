#include "mica/optim/adadelta.h"

#include "mica/core/check.h"
#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::optim {

Adadelta::Adadelta(Tensors parameters, const AdadeltaOptions& options)
    : Adadelta(std::vector<Group>{{std::move(parameters), options}}) {}

Adadelta::Adadelta(const std::vector<Group>& groups) : OptimizerWith("optim::Adadelta") {
  add_groups(groups);
}

void Adadelta::check_options(const AdadeltaOptions& o) const {
  check(o.rho >= 0 && o.rho <= 1, "{}: rho must be in [0, 1], got {}", name(), o.rho);
  check(o.eps >= 0, "{}: eps must not be negative, got {}", name(), o.eps);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
}

std::vector<Optimizer::State> Adadelta::states_for(const AdadeltaOptions&) const {
  return {{"square_avg"}, {"acc_delta"}};
}

void Adadelta::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const AdadeltaOptions& o = options(group);
  adadelta_update(lr, lists.parameters, lists.grads, lists.states[0], lists.states[1],
                  {.rho = o.rho, .eps = o.eps, .weight_decay = o.weight_decay}, step,
                  lists.masters);
}

}  // namespace mica::optim

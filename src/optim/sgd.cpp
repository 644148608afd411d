#include "mica/optim/sgd.h"

#include "mica/core/check.h"
#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::optim {

SGD::SGD(Tensors parameters, const SGDOptions& options)
    : SGD(std::vector<Group>{{std::move(parameters), options}}) {}

SGD::SGD(const std::vector<Group>& groups) : OptimizerWith("optim::SGD") { add_groups(groups); }

void SGD::check_options(const SGDOptions& o) const {
  check(o.momentum >= 0, "{}: momentum must not be negative, got {}", name(), o.momentum);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
  check(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
        "{}: nesterov needs momentum and no dampening, got {} and {}", name(), o.momentum,
        o.dampening);
}

std::vector<Optimizer::State> SGD::states_for(const SGDOptions& o) const {
  if (o.momentum == 0) return {};
  return {{"momentum"}};
}

void SGD::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const SGDOptions& o = options(group);
  sgd_update(lr, lists.parameters, lists.grads, o.momentum != 0 ? lists.states[0] : Tensors(),
             {.momentum = o.momentum,
              .dampening = o.dampening,
              .weight_decay = o.weight_decay,
              .nesterov = o.nesterov},
             step, lists.masters);
}

}  // namespace mica::optim

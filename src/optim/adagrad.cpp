#include "mica/optim/adagrad.h"

#include "mica/core/check.h"
#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::optim {

Adagrad::Adagrad(Tensors parameters, const AdagradOptions& options)
    : Adagrad(std::vector<Group>{{std::move(parameters), options}}) {}

Adagrad::Adagrad(const std::vector<Group>& groups) : OptimizerWith("optim::Adagrad") {
  add_groups(groups);
}

void Adagrad::check_options(const AdagradOptions& o) const {
  check(o.lr_decay >= 0, "{}: lr_decay must not be negative, got {}", name(), o.lr_decay);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
  check(o.initial_accumulator_value >= 0,
        "{}: initial_accumulator_value must not be negative, got {}", name(),
        o.initial_accumulator_value);
  check(o.eps >= 0, "{}: eps must not be negative, got {}", name(), o.eps);
}

std::vector<Optimizer::State> Adagrad::states_for(const AdagradOptions& o) const {
  return {{"sum", o.initial_accumulator_value}};
}

void Adagrad::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const AdagradOptions& o = options(group);
  adagrad_update(lr, step, lists.parameters, lists.grads, lists.states[0],
                 {.lr_decay = o.lr_decay, .weight_decay = o.weight_decay, .eps = o.eps},
                 lists.masters);
}

}  // namespace mica::optim

#include "mica/optim/nadam.h"

#include <cmath>

#include "mica/core/check.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/optimizer_update/optimizer_update.h"
#include "mica/ops/view/view.h"
#include "mica/optim/betas.h"

namespace mica::optim {

NAdam::NAdam(Tensors parameters, const NAdamOptions& options)
    : NAdam(std::vector<Group>{{std::move(parameters), options}}) {}

NAdam::NAdam(const std::vector<Group>& groups) : OptimizerWith("optim::NAdam") {
  add_groups(groups);
}

void NAdam::check_options(const NAdamOptions& o) const {
  check_betas(name(), o.betas);
  check(o.eps >= 0, "{}: eps must not be negative, got {}", name(), o.eps);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
  check(o.momentum_decay >= 0, "{}: momentum_decay must not be negative, got {}", name(),
        o.momentum_decay);
}

std::vector<Optimizer::State> NAdam::states_for(const NAdamOptions&) const {
  return {{"exp_avg"}, {"exp_avg_sq"}};
}

void NAdam::group_added(size_t group) {
  mu_products_.push_back(ones({}, {.dtype = DType::f64, .device = device()}));
  add_state(fmt::format("group{}.mu_product", group), mu_products_.back());
}

void NAdam::begin_update(size_t group) {
  const NAdamOptions& o = options(group);
  const Tensor shrink =
      exp(mul(cast(step_number(), DType::f64), std::log(0.96) * o.momentum_decay));
  const Tensor momentum = mul(sub(1.0, mul(shrink, 0.5)), o.betas[0]);
  copy_(mu_products_[group], mul(mu_products_[group], momentum));
}

void NAdam::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const NAdamOptions& o = options(group);
  nadam_update(concat({reshape(lr, {1}), reshape(mu_products_[group], {1})}, 0), step,
               lists.parameters, lists.grads, lists.states[0], lists.states[1],
               {.beta1 = o.betas[0],
                .beta2 = o.betas[1],
                .eps = o.eps,
                .weight_decay = o.weight_decay,
                .momentum_decay = o.momentum_decay,
                .decoupled = o.decoupled_weight_decay},
               lists.masters);
}

}  // namespace mica::optim

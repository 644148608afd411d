#include "mica/optim/rprop.h"

#include "mica/core/check.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/where/where.h"

namespace mica::optim {

Rprop::Rprop(Tensors parameters, const RpropOptions& options)
    : Rprop(std::vector<Group>{{std::move(parameters), options}}) {}

Rprop::Rprop(const std::vector<Group>& groups) : OptimizerWith("optim::Rprop") {
  add_groups(groups);
}

void Rprop::check_options(const RpropOptions& o) const {
  check(o.etas[0] > 0 && o.etas[0] < 1 && o.etas[1] > 1,
        "{}: etas must be below and above 1, got ({}, {})", name(), o.etas[0], o.etas[1]);
  check(o.step_sizes[0] <= o.step_sizes[1], "{}: step_sizes must rise, got ({}, {})", name(),
        o.step_sizes[0], o.step_sizes[1]);
}

std::vector<Optimizer::State> Rprop::states_for(const RpropOptions& o) const {
  return {{"prev"}, {"step_size", o.lr}};
}

void Rprop::update(size_t group, const Tensor& /*lr*/, const Tensor&, const Lists& lists) {
  const RpropOptions& o = options(group);
  for (size_t i = 0; i < lists.parameters.size(); ++i) {
    const Tensor& p = lists.parameters[i];
    const Tensor& g = lists.grads[i];
    const Tensor& before = lists.states[0][i];
    const Tensor& size = lists.states[1][i];
    const Tensor agreement = mul(g, before);
    const Tensor turned = lt(agreement, 0.0);
    const Tensor factor =
        where(turned, o.etas[0], where(gt(agreement, 0.0), o.etas[1], ones_like(g)));
    copy_(size, clamp(mul(size, factor), o.step_sizes[0], o.step_sizes[1]));
    copy_(before, where(turned, 0.0, g));
    copy_(p, sub(p, mul(sign(before), size)));
  }
}

}  // namespace mica::optim

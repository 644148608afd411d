#include "mica/optim/asgd.h"

#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::optim {

ASGD::ASGD(Tensors parameters, const ASGDOptions& options)
    : ASGD(std::vector<Group>{{std::move(parameters), options}}) {}

ASGD::ASGD(const std::vector<Group>& groups) : OptimizerWith("optim::ASGD") { add_groups(groups); }

void ASGD::check_options(const ASGDOptions& o) const {
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
}

std::vector<Optimizer::State> ASGD::states_for(const ASGDOptions&) const { return {{"ax"}}; }

void ASGD::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const ASGDOptions& o = options(group);
  for (size_t i = 0; i < lists.parameters.size(); ++i) {
    const Tensor& p = lists.parameters[i];
    const Tensor& g = lists.grads[i];
    const Tensor& average = lists.states[0][i];
    const Tensor rate = cast(reshape(lr, {}), p.dtype());
    const Tensor before = sub(cast(step, p.dtype()), 1.0);
    const Tensor eta = div(rate, pow(add(mul(mul(rate, before), o.lambd), 1.0), o.alpha));
    const Tensor decayed = o.weight_decay == 0 ? g : add(g, mul(p, o.weight_decay));
    copy_(p, sub(mul(p, sub(1.0, mul(eta, o.lambd))), mul(decayed, eta)));
    copy_(average, add(average, div(sub(p, average), clamp(sub(before, o.t0), 1.0, {}))));
  }
}

}  // namespace mica::optim

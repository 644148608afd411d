#include "mica/optim/sgd.h"

#include "mica/core/check.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/optimizer_update/optimizer_update.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::optim {
namespace {

/// What is known on the device alone.
struct Numbers {
  Tensor lr, momentum, step;
};

/// The formula of sgd_update with a momentum that lies in device memory.
void update_by_momentum(const SGDOptions& o, const Tensor& p, const Tensor& grad, const Tensor& m,
                        const Numbers& numbers) {
  const Tensor mu = cast(numbers.momentum, p.dtype());
  const Tensor g = o.weight_decay == 0 ? grad : add(grad, mul(p, o.weight_decay));
  const Tensor moved = add(mul(m, mu), mul(g, 1 - o.dampening));
  copy_(m, where(eq(numbers.step, 1), g, moved));
  copy_(p, sub(p, mul(cast(numbers.lr, p.dtype()), o.nesterov ? add(g, mul(m, mu)) : m)));
}

}  // namespace

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

std::optional<double> SGD::claim_momentum(size_t group) {
  const double momentum = options(group).momentum;
  if (momentum == 0) add_group_state(group, {"momentum"});
  return momentum;
}

void SGD::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const SGDOptions& o = options(group);
  if (momenta().defined()) {
    for (size_t i = 0; i < lists.parameters.size(); ++i)
      update_by_momentum(o, lists.parameters[i], lists.grads[i], lists.states[0][i],
                         {reshape(lr, {}), momentum(group), step});
    return;
  }
  sgd_update(lr, lists.parameters, lists.grads, o.momentum != 0 ? lists.states[0] : Tensors(),
             {.momentum = o.momentum,
              .dampening = o.dampening,
              .weight_decay = o.weight_decay,
              .nesterov = o.nesterov},
             step, lists.masters);
}

}  // namespace mica::optim

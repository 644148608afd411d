#include "mica/optim/adam.h"

#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/optimizer_update/optimizer_update.h"
#include "mica/ops/view/view.h"
#include "mica/optim/betas.h"

namespace mica::optim {
namespace {

template <class Options>
void check_adam(const char* name, const Options& o) {
  check_betas(name, o.betas);
  check(o.eps >= 0, "{}: eps must not be negative, got {}", name, o.eps);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name, o.weight_decay);
}

template <class State, class Options>
std::vector<State> adam_states(const Options& o) {
  std::vector<State> states = {{"exp_avg"}, {"exp_avg_sq"}};
  if (o.amsgrad) states.push_back({"max_exp_avg_sq"});
  return states;
}

template <class Options, class Lists>
void update_adam(const Options& o, bool decoupled, const Tensor& lr, const Tensor& step,
                 const Lists& lists) {
  adam_update(lr, step, lists.parameters, lists.grads,
              {lists.states[0], lists.states[1], o.amsgrad ? lists.states[2] : Tensors()},
              {.beta1 = o.betas[0],
               .beta2 = o.betas[1],
               .eps = o.eps,
               .weight_decay = o.weight_decay,
               .decoupled = decoupled,
               .amsgrad = o.amsgrad},
              lists.masters);
}

/// The formula of adam_update with a first beta that lies in device memory.
template <class Options, class Lists>
void update_by_beta(const Options& o, bool decoupled, const Tensor& rate, const Tensor& beta,
                    const Tensor& step, const Lists& lists) {
  const Tensor lr = reshape(rate, {});
  const Tensor count = cast(step, DType::f64);
  const Tensor first = sub(1.0, pow(beta, count));
  const Tensor second = sub(1.0, pow(full_like(count, o.betas[1]), count));
  for (size_t i = 0; i < lists.parameters.size(); ++i) {
    const Tensor& p = lists.parameters[i];
    const Tensor& m = lists.states[0][i];
    const Tensor& v = lists.states[1][i];
    const auto here = [&](const Tensor& number) { return cast(number, p.dtype()); };
    Tensor g = lists.grads[i];
    if (decoupled) {
      copy_(p, mul(p, here(sub(1.0, mul(lr, o.weight_decay)))));
    } else if (o.weight_decay != 0) {
      g = add(g, mul(p, o.weight_decay));
    }
    copy_(m, add(mul(m, here(beta)), mul(g, here(sub(1.0, beta)))));
    copy_(v, add(mul(v, o.betas[1]), mul(square(g), 1 - o.betas[1])));
    if (o.amsgrad) copy_(lists.states[2][i], maximum(lists.states[2][i], v));
    const Tensor& w = o.amsgrad ? lists.states[2][i] : v;
    const Tensor size = add(sqrt(div(w, here(second))), o.eps);
    copy_(p, sub(p, mul(here(div(lr, first)), div(m, size))));
  }
}

}  // namespace

Adam::Adam(Tensors parameters, const AdamOptions& options)
    : Adam(std::vector<Group>{{std::move(parameters), options}}) {}

Adam::Adam(const std::vector<Group>& groups) : OptimizerWith("optim::Adam") { add_groups(groups); }

void Adam::check_options(const AdamOptions& o) const { check_adam(name(), o); }

std::vector<Optimizer::State> Adam::states_for(const AdamOptions& o) const {
  return adam_states<State>(o);
}

void Adam::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  if (momenta().defined())
    return update_by_beta(options(group), false, lr, momentum(group), step, lists);
  update_adam(options(group), false, lr, step, lists);
}

AdamW::AdamW(Tensors parameters, const AdamWOptions& options)
    : AdamW(std::vector<Group>{{std::move(parameters), options}}) {}

AdamW::AdamW(const std::vector<Group>& groups) : OptimizerWith("optim::AdamW") {
  add_groups(groups);
}

void AdamW::check_options(const AdamWOptions& o) const { check_adam(name(), o); }

std::vector<Optimizer::State> AdamW::states_for(const AdamWOptions& o) const {
  return adam_states<State>(o);
}

void AdamW::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  if (momenta().defined())
    return update_by_beta(options(group), true, lr, momentum(group), step, lists);
  update_adam(options(group), true, lr, step, lists);
}

}  // namespace mica::optim

#include "mica/optim/adam.h"

#include "mica/core/check.h"
#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::optim {
namespace {

template <class Options>
void check_options(const char* name, const Options& o) {
  for (const double beta : o.betas)
    check(beta >= 0 && beta < 1, "{}: betas must be in [0, 1), got {} and {}", name, o.betas[0],
          o.betas[1]);
  check(o.eps >= 0, "{}: eps must not be negative, got {}", name, o.eps);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name, o.weight_decay);
}

template <class Options>
void update_adam(const Options& o, bool decoupled, const Tensor& lr, const Tensor& step,
                 const Tensors& parameters, const Tensors& grads,
                 const std::vector<Tensors>& states) {
  adam_update(lr, step, parameters, grads,
              {states[0], states[1], o.amsgrad ? states[2] : Tensors()},
              {.beta1 = o.betas[0],
               .beta2 = o.betas[1],
               .eps = o.eps,
               .weight_decay = o.weight_decay,
               .decoupled = decoupled,
               .amsgrad = o.amsgrad});
}

}  // namespace

Adam::Adam(Tensors parameters, const AdamOptions& options)
    : Adam(std::vector<Group>{{std::move(parameters), options}}) {}

Adam::Adam(const std::vector<Group>& groups) : Optimizer("optim::Adam") {
  for (const auto& [parameters, o] : groups) {
    check_options(name(), o);
    options_.push_back(o);
    std::vector<State> states = {{"exp_avg"}, {"exp_avg_sq"}};
    if (o.amsgrad) states.push_back({"max_exp_avg_sq"});
    add_group(parameters, o.lr, states);
  }
  start();
}

void Adam::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  update_adam(options_[group], false, lr, step, lists.parameters, lists.grads, lists.states);
}

AdamW::AdamW(Tensors parameters, const AdamWOptions& options)
    : AdamW(std::vector<Group>{{std::move(parameters), options}}) {}

AdamW::AdamW(const std::vector<Group>& groups) : Optimizer("optim::AdamW") {
  for (const auto& [parameters, o] : groups) {
    check_options(name(), o);
    options_.push_back(o);
    std::vector<State> states = {{"exp_avg"}, {"exp_avg_sq"}};
    if (o.amsgrad) states.push_back({"max_exp_avg_sq"});
    add_group(parameters, o.lr, states);
  }
  start();
}

void AdamW::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  update_adam(options_[group], true, lr, step, lists.parameters, lists.grads, lists.states);
}

}  // namespace mica::optim

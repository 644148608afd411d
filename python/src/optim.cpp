#include "mica/optim/optim.h"

#include <algorithm>
#include <cmath>

#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>

#include "python/src/bindings.h"
#include "python/src/callback.h"
#include "python/src/optim.h"

namespace mica::python {
namespace {

using namespace optim;
using Betas = std::array<double, 2>;

// The options by their Python names, for the dictionaries of parameter groups.
template <class F>
void fields(SGDOptions& o, F&& f) {
  f("lr", o.lr), f("momentum", o.momentum), f("dampening", o.dampening);
  f("weight_decay", o.weight_decay), f("nesterov", o.nesterov);
}
template <class Options, class F>
  requires requires(Options o) { o.betas; }
void fields(Options& o, F&& f) {
  f("lr", o.lr), f("betas", o.betas);
  if constexpr (requires { o.eps; }) f("eps", o.eps);
  f("weight_decay", o.weight_decay);
  if constexpr (requires { o.amsgrad; }) f("amsgrad", o.amsgrad);
  if constexpr (requires { o.momentum_decay; }) f("momentum_decay", o.momentum_decay);
  if constexpr (requires { o.decoupled_weight_decay; })
    f("decoupled_weight_decay", o.decoupled_weight_decay);
}
template <class F>
void fields(RMSpropOptions& o, F&& f) {
  f("lr", o.lr), f("alpha", o.alpha), f("eps", o.eps);
  f("weight_decay", o.weight_decay), f("momentum", o.momentum), f("centered", o.centered);
}
template <class F>
void fields(AdagradOptions& o, F&& f) {
  f("lr", o.lr), f("lr_decay", o.lr_decay), f("weight_decay", o.weight_decay);
  f("initial_accumulator_value", o.initial_accumulator_value), f("eps", o.eps);
}
template <class F>
void fields(AdadeltaOptions& o, F&& f) {
  f("lr", o.lr), f("rho", o.rho), f("eps", o.eps), f("weight_decay", o.weight_decay);
}
template <class F>
void fields(AdafactorOptions& o, F&& f) {
  f("lr", o.lr), f("beta2_decay", o.beta2_decay), f("eps", o.eps), f("d", o.d);
  f("weight_decay", o.weight_decay);
}
template <class F>
void fields(ASGDOptions& o, F&& f) {
  f("lr", o.lr), f("lambd", o.lambd), f("alpha", o.alpha), f("t0", o.t0);
  f("weight_decay", o.weight_decay);
}
template <class F>
void fields(RpropOptions& o, F&& f) {
  f("lr", o.lr), f("etas", o.etas), f("step_sizes", o.step_sizes);
}
template <class F>
void fields(MuonOptions& o, F&& f) {
  f("lr", o.lr), f("weight_decay", o.weight_decay), f("momentum", o.momentum);
  f("nesterov", o.nesterov), f("ns_coefficients", o.ns_coefficients), f("eps", o.eps);
  f("ns_steps", o.ns_steps);
}
template <class F>
void fields(LBFGSOptions& o, F&& f) {
  f("lr", o.lr), f("max_iter", o.max_iter), f("max_eval", o.max_eval);
  f("tolerance_grad", o.tolerance_grad), f("tolerance_change", o.tolerance_change);
  f("history_size", o.history_size);
}

/// Sets the option of this name; false where there is none.
template <class Options>
bool set_field(Options& options, const std::string& name, nb::handle value) {
  bool known = false;
  fields(options, [&](const char* field, auto& member) {
    if (name != field) return;
    member = nb::cast<std::remove_reference_t<decltype(member)>>(value);
    known = true;
  });
  return known;
}

/// What a class of optimizers does with a group's options.
template <class O>
struct Access : GroupAccess {
  static nb::dict get(const Optimizer& optimizer, size_t group) {
    nb::dict dict;
    auto given = static_cast<const O&>(optimizer).options(group);
    fields(given, [&](const char* name, const auto& value) {
      const nb::object object = nb::cast(value);
      if (std::string_view(name) != "lr")
        dict[name] = nb::isinstance<nb::list>(object) ? nb::tuple(object) : object;
    });
    return dict;
  }
  static bool set(Optimizer& optimizer, size_t group, const std::string& name, nb::handle value) {
    auto options = static_cast<const O&>(optimizer).options(group);
    if (!set_field(options, name, value)) return false;
    static_cast<O&>(optimizer).set_options(group, options);
    return true;
  }
  static constexpr GroupAccess kAccess = {get, set};
};

/// A group from its dictionary; what is no option becomes a free key.
template <class O>
typename O::Group parse_group(nb::handle entry, const typename O::Options& defaults, nb::dict free,
                              const char* what) {
  if (!nb::isinstance<nb::dict>(entry))
    raise_type_error("{}: expected a dict for each group, got {}", what, class_name(entry));
  typename O::Group group{{}, defaults};
  for (auto [key, value] : nb::borrow<nb::dict>(entry)) {
    const auto name = nb::cast<std::string>(key);
    if (name == "params") {
      group.parameters = parse_tensors(value, what);
    } else if (!set_field(group.options, name, value)) {
      free[key] = value;
    }
  }
  return group;
}

/// PyTorch's words for how a step is computed, which mica decides itself.
void check_other_words(const nb::kwargs& words, const char* what) {
  constexpr std::array<std::string_view, 4> kTaken = {"foreach", "fused", "capturable",
                                                      "differentiable"};
  for (const auto [key, value] : words) {
    const auto name = nb::cast<std::string>(key);
    if (std::ranges::find(kTaken, std::string_view(name)) != kTaken.end()) continue;
    if (name != "maximize")
      raise_type_error("{}() got an unexpected keyword argument '{}'", what, name);
    check<Unsupported>(!nb::cast<bool>(value), "{}: maximize is not taken; negate the loss", what);
  }
}

template <class O>
void make(nb::pointer_and_handle<O> self, nb::handle params, const typename O::Options& options,
          const char* what, const nb::kwargs& words) {
  check_other_words(words, what);
  std::vector<typename O::Group> groups;
  nb::list free;
  if (is_list_of_groups(params)) {
    for (nb::handle entry : params) {
      nb::dict keys;
      groups.push_back(parse_group<O>(entry, options, keys, what));
      free.append(keys);
    }
  } else {
    groups.push_back({parse_tensors(params, what), options});
    free.append(nb::dict());
  }
  without_gil([&] { new (self.p) O(groups); });
  self.h.attr(kFreeKeys) = free;
}

template <class O>
void add_param_group(nb::handle self, nb::handle entry) {
  O& optimizer = nb::cast<O&>(self);
  nb::dict keys;
  const auto group = parse_group<O>(entry, optimizer.options(0), keys, "add_param_group");
  without_gil([&] { optimizer.add_param_group(group); });
  nb::borrow<nb::list>(self.attr(kFreeKeys)).append(keys);
}

template <class O>
nb::class_<O, Optimizer> add_optimizer(nb::module_& m, const char* name, const char* doc) {
  nb::class_<O, Optimizer> optimizer(m, name, doc, nb::dynamic_attr());
  optimizer.def("__repr__", shows({"lr", "groups"}));
  optimizer.def_prop_ro(
      "param_groups", [](nb::handle self) { return param_groups(self, Access<O>::kAccess); },
      kParamGroupsDoc);
  optimizer.def("add_param_group", add_param_group<O>, "param_group"_a,
                "Adds a group: a dict with 'params', options that differ from the first group's, "
                "and keys of one's own. Compiled steps are captured again.");
  return optimizer;
}

template <class O>
using Self = nb::pointer_and_handle<O>;

void bind_optimizers(nb::module_& m) {
  add_optimizer<SGD>(m, "SGD", "Stochastic gradient descent.")
      .def(
          "__init__",
          [](Self<SGD> self, nb::handle params, double lr, double momentum, double dampening,
             double weight_decay, bool nesterov, const nb::kwargs& words) {
            make(self, params, {lr, momentum, dampening, weight_decay, nesterov}, "SGD", words);
          },
          "params"_a, "lr"_a = 1e-3, "momentum"_a = 0.0, "dampening"_a = 0.0,
          "weight_decay"_a = 0.0, nb::kw_only(), "nesterov"_a = false, "words"_a);
  add_optimizer<Adam>(m, "Adam", "Adam.")
      .def(
          "__init__",
          [](Self<Adam> self, nb::handle params, double lr, Betas betas, double eps,
             double weight_decay, bool amsgrad, bool decoupled_weight_decay,
             const nb::kwargs& words) {
            check<Unsupported>(!decoupled_weight_decay,
                               "Adam: decoupled_weight_decay is what AdamW does");
            make(self, params, {lr, betas, eps, weight_decay, amsgrad}, "Adam", words);
          },
          "params"_a, "lr"_a = 1e-3, "betas"_a = Betas{0.9, 0.999}, "eps"_a = 1e-8,
          "weight_decay"_a = 0.0, "amsgrad"_a = false, "decoupled_weight_decay"_a = false,
          "words"_a);
  add_optimizer<AdamW>(m, "AdamW", "Adam whose weight decay shrinks the parameters.")
      .def(
          "__init__",
          [](Self<AdamW> self, nb::handle params, double lr, Betas betas, double eps,
             double weight_decay, bool amsgrad, const nb::kwargs& words) {
            make(self, params, {lr, betas, eps, weight_decay, amsgrad}, "AdamW", words);
          },
          "params"_a, "lr"_a = 1e-3, "betas"_a = Betas{0.9, 0.999}, "eps"_a = 1e-8,
          "weight_decay"_a = 1e-2, "amsgrad"_a = false, "words"_a);
  add_optimizer<RMSprop>(m, "RMSprop", "RMSprop.")
      .def(
          "__init__",
          [](Self<RMSprop> self, nb::handle params, double lr, double alpha, double eps,
             double weight_decay, double momentum, bool centered, const nb::kwargs& words) {
            make(self, params, {lr, alpha, eps, weight_decay, momentum, centered}, "RMSprop",
                 words);
          },
          "params"_a, "lr"_a = 1e-2, "alpha"_a = 0.99, "eps"_a = 1e-8, "weight_decay"_a = 0.0,
          "momentum"_a = 0.0, "centered"_a = false, "words"_a);
  add_optimizer<Adagrad>(m, "Adagrad", "Adagrad.")
      .def(
          "__init__",
          [](Self<Adagrad> self, nb::handle params, double lr, double lr_decay, double weight_decay,
             double initial_accumulator_value, double eps, const nb::kwargs& words) {
            make(self, params, {lr, lr_decay, weight_decay, initial_accumulator_value, eps},
                 "Adagrad", words);
          },
          "params"_a, "lr"_a = 1e-2, "lr_decay"_a = 0.0, "weight_decay"_a = 0.0,
          "initial_accumulator_value"_a = 0.0, "eps"_a = 1e-10, "words"_a);
  add_optimizer<Adadelta>(m, "Adadelta", "Adadelta.")
      .def(
          "__init__",
          [](Self<Adadelta> self, nb::handle params, double lr, double rho, double eps,
             double weight_decay, const nb::kwargs& words) {
            make(self, params, {lr, rho, eps, weight_decay}, "Adadelta", words);
          },
          "params"_a, "lr"_a = 1.0, "rho"_a = 0.9, "eps"_a = 1e-6, "weight_decay"_a = 0.0,
          "words"_a);
  add_optimizer<Adamax>(m, "Adamax", "Adam by the largest gradient.")
      .def(
          "__init__",
          [](Self<Adamax> self, nb::handle params, double lr, Betas betas, double eps,
             double weight_decay, const nb::kwargs& words) {
            make(self, params, {lr, betas, eps, weight_decay}, "Adamax", words);
          },
          "params"_a, "lr"_a = 2e-3, "betas"_a = Betas{0.9, 0.999}, "eps"_a = 1e-8,
          "weight_decay"_a = 0.0, "words"_a);
  add_optimizer<NAdam>(m, "NAdam", "Adam with Nesterov's momentum.")
      .def(
          "__init__",
          [](Self<NAdam> self, nb::handle params, double lr, Betas betas, double eps,
             double weight_decay, double momentum_decay, bool decoupled_weight_decay,
             const nb::kwargs& words) {
            make(self, params,
                 {lr, betas, eps, weight_decay, momentum_decay, decoupled_weight_decay}, "NAdam",
                 words);
          },
          "params"_a, "lr"_a = 2e-3, "betas"_a = Betas{0.9, 0.999}, "eps"_a = 1e-8,
          "weight_decay"_a = 0.0, "momentum_decay"_a = 4e-3, "decoupled_weight_decay"_a = false,
          "words"_a);
  add_optimizer<RAdam>(m, "RAdam", "Rectified Adam.")
      .def(
          "__init__",
          [](Self<RAdam> self, nb::handle params, double lr, Betas betas, double eps,
             double weight_decay, bool decoupled_weight_decay, const nb::kwargs& words) {
            make(self, params, {lr, betas, eps, weight_decay, decoupled_weight_decay}, "RAdam",
                 words);
          },
          "params"_a, "lr"_a = 1e-3, "betas"_a = Betas{0.9, 0.999}, "eps"_a = 1e-8,
          "weight_decay"_a = 0.0, "decoupled_weight_decay"_a = false, "words"_a);
  add_optimizer<Lion>(m, "Lion", "Steps by the sign of the momentum.")
      .def(
          "__init__",
          [](Self<Lion> self, nb::handle params, double lr, Betas betas, double weight_decay,
             const nb::kwargs& words) {
            make(self, params, {lr, betas, weight_decay}, "Lion", words);
          },
          "params"_a, "lr"_a = 1e-4, "betas"_a = Betas{0.9, 0.99}, "weight_decay"_a = 0.0,
          "words"_a);
}

void bind_rarer_optimizers(nb::module_& m) {
  add_optimizer<Adafactor>(m, "Adafactor",
                           "Adafactor: keeps means of rows and columns, not every square.")
      .def(
          "__init__",
          [](Self<Adafactor> self, nb::handle params, double lr, double beta2_decay,
             std::pair<std::optional<double>, double> eps, double d, double weight_decay,
             const nb::kwargs& words) {
            make(self, params, {lr, beta2_decay, eps, d, weight_decay}, "Adafactor", words);
          },
          "params"_a, "lr"_a = 1e-2, "beta2_decay"_a = -0.8,
          "eps"_a = std::pair<std::optional<double>, double>(std::nullopt, 1e-3), "d"_a = 1.0,
          "weight_decay"_a = 0.0, "words"_a);
  add_optimizer<ASGD>(m, "ASGD", "Averaged stochastic gradient descent.")
      .def(
          "__init__",
          [](Self<ASGD> self, nb::handle params, double lr, double lambd, double alpha, double t0,
             double weight_decay, const nb::kwargs& words) {
            make(self, params, {lr, lambd, alpha, t0, weight_decay}, "ASGD", words);
          },
          "params"_a, "lr"_a = 1e-2, "lambd"_a = 1e-4, "alpha"_a = 0.75, "t0"_a = 1e6,
          "weight_decay"_a = 0.0, "words"_a);
  add_optimizer<Rprop>(m, "Rprop", "Resilient backpropagation, for whole batches.")
      .def(
          "__init__",
          [](Self<Rprop> self, nb::handle params, double lr, Betas etas, Betas step_sizes,
             const nb::kwargs& words) {
            make(self, params, {lr, etas, step_sizes}, "Rprop", words);
          },
          "params"_a, "lr"_a = 1e-2, "etas"_a = Betas{0.5, 1.2}, "step_sizes"_a = Betas{1e-6, 50.0},
          "words"_a);
}

MuonScale muon_scale(const std::optional<std::string>& name) {
  if (!name || *name == "original") return MuonScale::original;
  if (*name == "match_rms_adamw") return MuonScale::match_rms_adamw;
  check(*name == "spectral_unclamped",
        "optim::Muon: adjust_lr_fn must be 'original', 'match_rms_adamw' or 'spectral_unclamped', "
        "got '{}'",
        *name);
  return MuonScale::spectral_unclamped;
}

void bind_muon(nb::module_& m) {
  add_optimizer<Muon>(m, "Muon",
                      "Steps along the momentum made orthogonal, for the matrices of a network.")
      .def(
          "__init__",
          [](Self<Muon> self, nb::handle params, double lr, double weight_decay, double momentum,
             bool nesterov, std::array<double, 3> ns_coefficients, double eps, int64_t ns_steps,
             const std::optional<std::string>& adjust_lr_fn, const nb::kwargs& words) {
            make(self, params,
                 {lr, weight_decay, momentum, nesterov, ns_coefficients, eps, ns_steps,
                  muon_scale(adjust_lr_fn)},
                 "Muon", words);
          },
          "params"_a, "lr"_a = 1e-3, "weight_decay"_a = 0.1, "momentum"_a = 0.95,
          "nesterov"_a = true, "ns_coefficients"_a = std::array<double, 3>{3.4445, -4.775, 2.0315},
          "eps"_a = 1e-7, "ns_steps"_a = 5, "adjust_lr_fn"_a = nb::none(), "words"_a);
}

/// One group, given as tensors.
void bind_lbfgs(nb::module_& m) {
  add_optimizer<LBFGS>(m, "LBFGS", "L-BFGS; a step calls a closure several times.")
      .def(
          "__init__",
          [](Self<LBFGS> self, nb::handle params, double lr, int64_t max_iter,
             std::optional<int64_t> max_eval, double tolerance_grad, double tolerance_change,
             int64_t history_size, const std::optional<std::string>& line_search_fn) {
            check(!line_search_fn || *line_search_fn == "strong_wolfe",
                  "optim::LBFGS: line_search_fn must be None or 'strong_wolfe', got '{}'",
                  line_search_fn.value_or(""));
            const Tensors parameters = parse_tensors(params, "LBFGS");
            const LBFGSOptions options{lr,
                                       max_iter,
                                       max_eval.value_or(0),
                                       tolerance_grad,
                                       tolerance_change,
                                       history_size,
                                       line_search_fn.has_value()};
            without_gil([&] { new (self.p) LBFGS(parameters, options); });
            nb::list free;
            free.append(nb::dict());
            self.h.attr(kFreeKeys) = free;
          },
          "params"_a, "lr"_a = 1.0, "max_iter"_a = 20, "max_eval"_a = nb::none(),
          "tolerance_grad"_a = 1e-7, "tolerance_change"_a = 1e-9, "history_size"_a = 100,
          "line_search_fn"_a = nb::none())
      .def(
          "step",
          [](LBFGS& self, nb::handle closure) {
            const Shared function(closure);
            return without_gil([&] {
              return self.step([&] {
                const nb::gil_scoped_acquire acquire;
                return nb::cast<Tensor>(function.get()());
              });
            });
          },
          "closure"_a,
          "Calls the closure, which makes the gradients anew and returns the loss, several times; "
          "returns the first loss.");
}

void bind_ema(nb::module_& m) {
  nb::class_<EMA>(m, "EMA", "An exponential moving average of weights.")
      .def(
          "__init__",
          [](EMA* self, nb::handle params, double decay, bool warmup) {
            const Tensors of = parse_tensors(params, "EMA");
            without_gil([&] { new (self) EMA(of, {decay, warmup}); });
          },
          "params"_a, "decay"_a = 0.999, "warmup"_a = false)
      .def(
          "update",
          [](EMA& self, const std::optional<Tensor>& where) { self.update(or_undefined(where)); },
          nb::kw_only(), "where"_a = nb::none(), ReleaseGil(),
          "Takes the weights as they are now into the averages, where the flag allows it.")
      .def_prop_ro(
          "averages", [](const EMA& self) { return self.averages(); },
          "The averages, in the order of the weights.")
      .def("apply", &EMA::apply, ReleaseGil(),
           "Puts the averages in the weights' place, until restore().")
      .def("restore", &EMA::restore, ReleaseGil(), "Puts the weights back.")
      .def(
          "__enter__",
          [](nb::handle self) {
            EMA& ema = nb::cast<EMA&>(self);
            without_gil([&] { ema.apply(); });
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> EMA"))
      .def(
          "__exit__",
          [](EMA& self, nb::handle, nb::handle, nb::handle) {
            without_gil([&] { self.restore(); });
          },
          "type"_a.none(), "value"_a.none(), "traceback"_a.none())
      .def("state_dict", &EMA::state_dict, "Averages and count by name; they share its memory.")
      .def("load_state_dict", &EMA::load_state_dict, "state_dict"_a, ReleaseGil(),
           "Copies values in. A missing, unknown or misshapen entry raises, and then nothing was "
           "changed.");
}

/// Raises, before anything is changed, where the gradients have no finite norm.
void check_finite_gradients(const Tensors& parameters, double norm_type) {
  Tensors grads;
  for (const Tensor& p : parameters)
    if (p.grad().defined()) grads.push_back(p.grad());
  const double norm = get_total_norm(grads, norm_type).to(DType::f64).item<double>();
  check(std::isfinite(norm), "clip_grad_norm_: the norm of the gradients is {}", norm);
}

void bind_gradients(nb::module_& m) {
  m.def(
      "clip_grad_norm_",
      [](nb::handle parameters, double max_norm, double norm_type, bool error_if_nonfinite,
         nb::handle /*foreach*/) {
        const Tensors of = parse_tensors(parameters, "clip_grad_norm_");
        return without_gil([&] {
          if (error_if_nonfinite) check_finite_gradients(of, norm_type);
          return clip_grad_norm_(of, max_norm, norm_type);
        });
      },
      "parameters"_a, "max_norm"_a, "norm_type"_a = 2.0, "error_if_nonfinite"_a = false,
      "foreach"_a = nb::none(),
      "Scales the gradients to a norm of at most max_norm; returns the norm they had.");
  m.def(
      "get_total_norm",
      [](nb::handle tensors, double norm_type) {
        const Tensors of = parse_tensors(tensors, "get_total_norm");
        return without_gil([&] { return get_total_norm(of, norm_type); });
      },
      "tensors"_a, "norm_type"_a = 2.0, "The norm of all tensors together.");
  m.def(
      "clip_grad_value_",
      [](nb::handle parameters, double clip_value) {
        const Tensors of = parse_tensors(parameters, "clip_grad_value_");
        without_gil([&] { clip_grad_value_(of, clip_value); });
      },
      "parameters"_a, "clip_value"_a, "Brings every element of the gradients within a limit.");
  m.def(
      "accumulate_backward",
      [](nb::handle loss, nb::handle batch, int64_t parts) {
        const Tensors of = parse_tensors(batch, "accumulate_backward");
        const Shared function(loss);
        return without_gil([&] {
          return accumulate_backward(
              [&](const Tensors& part) {
                const nb::gil_scoped_acquire acquire;
                return nb::cast<Tensor>(function.get()(*to_tuple(part)));
              },
              of, parts);
        });
      },
      "loss"_a, "batch"_a, "parts"_a,
      "Backward of loss(*part) for `parts` equal parts of the batch's tensors, one after the "
      "other: the gradients add up to those of the joined batch, for a loss that is a mean. "
      "Returns the mean of the losses.");
}

}  // namespace

void bind_optim(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "optim");
  bind_schedules_and_schedulers(scope);
  bind_optimizer_base(scope);
  bind_optimizers(scope);
  bind_rarer_optimizers(scope);
  bind_muon(scope);
  bind_lbfgs(scope);
  bind_ema(scope);
  bind_gradients(scope);
}

}  // namespace mica::python

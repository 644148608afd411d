#include "mica/optim/optim.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>

#include "python/src/bindings.h"

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
  f("lr", o.lr), f("betas", o.betas), f("eps", o.eps);
  f("weight_decay", o.weight_decay), f("amsgrad", o.amsgrad);
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

/// Tensors, or dictionaries with "params" and options that differ from the others'.
template <class O, class Options>
std::vector<typename O::Group> parse_groups(nb::handle params, const Options& defaults,
                                            const char* what) {
  std::vector<typename O::Group> groups;
  const bool sequence = nb::isinstance<nb::list>(params) || nb::isinstance<nb::tuple>(params);
  if (!sequence || nb::len(params) == 0 || !nb::isinstance<nb::dict>(params[0])) {
    groups.push_back({parse_tensors(params, what), defaults});
    return groups;
  }
  for (nb::handle entry : params) {
    if (!nb::isinstance<nb::dict>(entry))
      raise_type_error("{}: expected a dict for each group, got {}", what, class_name(entry));
    typename O::Group group{{}, defaults};
    for (auto [key, value] : nb::borrow<nb::dict>(entry)) {
      const auto name = nb::cast<std::string>(key);
      bool known = name == "params";
      if (known) group.parameters = parse_tensors(value, what);
      fields(group.options, [&](const char* field, auto& member) {
        if (name != field) return;
        member = nb::cast<std::remove_reference_t<decltype(member)>>(value);
        known = true;
      });
      if (!known) raise_type_error("{}: a group has no option '{}'", what, name);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

/// What optimizer.param_groups gives: a dictionary that reads and sets the rate in the optimizer.
struct ParamGroup {
  nb::object optimizer;
  size_t index;
  nb::dict options;  ///< but "params" and "lr"

  Optimizer& of() const { return nb::cast<Optimizer&>(optimizer); }
  nb::dict all() const {
    nb::dict dict;
    dict["params"] = of().parameters(index);
    dict["lr"] = of().lr(index);
    dict.update(options);
    return dict;
  }
  void set(const std::string& key, nb::handle value) const {
    if (key != "lr")
      raise_type_error("param_groups: '{}' cannot be set, only 'lr'; make another optimizer", key);
    of().set_lr(index, nb::cast<double>(value));
  }
};

template <class O>
nb::list param_groups(nb::handle self) {
  const O& optimizer = nb::cast<const O&>(self);
  nb::list groups;
  for (size_t i = 0; i < optimizer.groups(); ++i) {
    nb::dict options;
    auto given = optimizer.options(i);
    fields(given, [&](const char* name, const auto& value) {
      const nb::object object = nb::cast(value);
      if (std::string_view(name) != "lr")
        options[name] = nb::isinstance<nb::list>(object) ? nb::tuple(object) : object;
    });
    groups.append(ParamGroup{nb::borrow(self), i, options});
  }
  return groups;
}

void bind_param_group(nb::module_& m) {
  nb::class_<ParamGroup>(m, "ParamGroup",
                         "One of optimizer.param_groups: 'params', 'lr', which may be set, and the "
                         "other options.")
      .def("__getitem__",
           [](const ParamGroup& self, nb::handle key) { return nb::object(self.all()[key]); })
      .def("__setitem__", &ParamGroup::set)
      .def("__contains__",
           [](const ParamGroup& self, nb::handle key) { return self.all().contains(key); })
      .def("__len__", [](const ParamGroup& self) { return self.all().size(); })
      .def("__iter__", [](const ParamGroup& self) { return nb::iter(self.all()); })
      .def("keys", [](const ParamGroup& self) { return self.all().keys(); })
      .def("values", [](const ParamGroup& self) { return self.all().values(); })
      .def("items", [](const ParamGroup& self) { return self.all().items(); })
      .def("__repr__", [](const ParamGroup& self) { return nb::repr(self.all()); });
}

template <class O, class Options>
void make(O* self, nb::handle params, const Options& options, const char* what) {
  const auto groups = parse_groups<O>(params, options, what);
  without_gil([&] { new (self) O(groups); });
}

void bind_base(nb::module_& m) {
  nb::class_<Optimizer>(m, "Optimizer", "What all optimizers have.")
      .def("step", &Optimizer::step, ReleaseGil(),
           "Updates every parameter that requires a gradient and has one.")
      .def("zero_grad", &Optimizer::zero_grad, ReleaseGil(), "Makes all gradients None.")
      .def_prop_rw(
          "lr", [](const Optimizer& o) { return o.lr(); },
          [](Optimizer& o, double lr) { without_gil([&] { o.set_lr(lr); }); },
          "The base learning rate (of the first group; set for all); a compiled step sees a new "
          "one.")
      .def(
          "set_lr", [](Optimizer& o, double lr, size_t group) { o.set_lr(group, lr); }, "lr"_a,
          "group"_a, ReleaseGil(), "Sets the base learning rate of one group.")
      .def_prop_rw(
          "schedule", &Optimizer::schedule,
          [](Optimizer& o, const Schedule& s) { without_gil([&] { o.set_schedule(s); }); },
          "The learning rate as a function of the number of steps.")
      .def(
          "parameters", [](const Optimizer& o) { return o.parameters(); }, "Of all groups.")
      .def_prop_ro("groups", &Optimizer::groups, "How many groups of parameters there are.")
      .def_prop_ro("steps", &Optimizer::steps, ReleaseGil(),
                   "How many steps were made; waits for the device.")
      .def(
          "current_lr", [](const Optimizer& o, size_t group) { return o.current_lr(group); },
          "group"_a = 0, ReleaseGil(), "The rate that the next step uses; waits for the device.")
      .def("state_dict", &Optimizer::state_dict,
           "Step count, rates and moments by name; they share the optimizer's memory.")
      .def("load_state_dict", &Optimizer::load_state_dict, "state_dict"_a, ReleaseGil(),
           "Copies values in. A missing, unknown or misshapen entry raises, and then nothing was "
           "changed.");
}

template <class O>
nb::class_<O, Optimizer> add_optimizer(nb::module_& m, const char* name, const char* doc) {
  nb::class_<O, Optimizer> optimizer(m, name, doc);
  optimizer.def("__repr__", shows({"lr", "groups"}));
  optimizer.def_prop_ro("param_groups", param_groups<O>,
                        "The groups of parameters as dictionaries. group['lr'] may be set: the "
                        "base rate, from which the schedule starts; a compiled step sees it.");
  return optimizer;
}

void bind_optimizers(nb::module_& m) {
  add_optimizer<SGD>(m, "SGD", "Stochastic gradient descent.")
      .def(
          "__init__",
          [](SGD* self, nb::handle params, double lr, double momentum, double dampening,
             double weight_decay, bool nesterov) {
            make(self, params, SGDOptions{lr, momentum, dampening, weight_decay, nesterov}, "SGD");
          },
          "params"_a, "lr"_a = 1e-3, "momentum"_a = 0.0, "dampening"_a = 0.0,
          "weight_decay"_a = 0.0, nb::kw_only(), "nesterov"_a = false);
  add_optimizer<Adam>(m, "Adam", "Adam.")
      .def(
          "__init__",
          [](Adam* self, nb::handle params, double lr, Betas betas, double eps, double weight_decay,
             bool amsgrad) {
            make(self, params, AdamOptions{lr, betas, eps, weight_decay, amsgrad}, "Adam");
          },
          "params"_a, "lr"_a = 1e-3, "betas"_a = Betas{0.9, 0.999}, "eps"_a = 1e-8,
          "weight_decay"_a = 0.0, "amsgrad"_a = false);
  add_optimizer<AdamW>(m, "AdamW", "Adam whose weight decay shrinks the parameters.")
      .def(
          "__init__",
          [](AdamW* self, nb::handle params, double lr, Betas betas, double eps,
             double weight_decay, bool amsgrad) {
            make(self, params, AdamWOptions{lr, betas, eps, weight_decay, amsgrad}, "AdamW");
          },
          "params"_a, "lr"_a = 1e-3, "betas"_a = Betas{0.9, 0.999}, "eps"_a = 1e-8,
          "weight_decay"_a = 1e-2, "amsgrad"_a = false);
  add_optimizer<RMSprop>(m, "RMSprop", "RMSprop.")
      .def(
          "__init__",
          [](RMSprop* self, nb::handle params, double lr, double alpha, double eps,
             double weight_decay, double momentum, bool centered) {
            make(self, params, RMSpropOptions{lr, alpha, eps, weight_decay, momentum, centered},
                 "RMSprop");
          },
          "params"_a, "lr"_a = 1e-2, "alpha"_a = 0.99, "eps"_a = 1e-8, "weight_decay"_a = 0.0,
          "momentum"_a = 0.0, "centered"_a = false);
  add_optimizer<Adagrad>(m, "Adagrad", "Adagrad.")
      .def(
          "__init__",
          [](Adagrad* self, nb::handle params, double lr, double lr_decay, double weight_decay,
             double initial_accumulator_value, double eps) {
            make(self, params,
                 AdagradOptions{lr, lr_decay, weight_decay, initial_accumulator_value, eps},
                 "Adagrad");
          },
          "params"_a, "lr"_a = 1e-2, "lr_decay"_a = 0.0, "weight_decay"_a = 0.0,
          "initial_accumulator_value"_a = 0.0, "eps"_a = 1e-10);
}

void bind_schedules(nb::module_& m) {
  nb::class_<Schedule>(m, "Schedule", "A learning rate as a function of the number of steps done.")
      .def("at", &Schedule::at, "step"_a, "The factor of the base rate after `step` steps.")
      .def("lr_at", &Schedule::lr_at, "base_lr"_a, "step"_a, "The rate after `step` steps.")
      .def("warmup", &Schedule::warmup, "steps"_a, "start"_a = 1.0 / 3,
           "This schedule after steps in which the rate rises linearly to the base rate.")
      .def("__eq__", [](const Schedule& a, const Schedule& b) { return a == b; });
  m.def("constant", [] { return constant(); }, "The base rate throughout.");
  m.def(
      "step", [](int64_t every, double gamma) { return step({every, gamma}); }, "every"_a,
      "gamma"_a = 0.1, "Times gamma after every so many steps.");
  m.def(
      "multi_step",
      [](std::vector<int64_t> milestones, double gamma) {
        return multi_step({std::move(milestones), gamma});
      },
      "milestones"_a, "gamma"_a = 0.1, "Times gamma at each milestone.");
  m.def(
      "exponential", [](double gamma) { return exponential({gamma}); }, "gamma"_a,
      "Times gamma after each step.");
  m.def(
      "cosine", [](int64_t steps, double min_lr) { return cosine({steps, min_lr}); }, "steps"_a,
      "min_lr"_a = 0.0, "From the base rate to min_lr along half a cosine.");
  m.def(
      "linear", [](int64_t steps) { return linear({steps}); }, "steps"_a,
      "From the base rate to zero along a line.");
  m.def(
      "one_cycle",
      [](int64_t steps, double pct_start, double div_factor, double final_div_factor) {
        return one_cycle({steps, pct_start, div_factor, final_div_factor});
      },
      "steps"_a, "pct_start"_a = 0.3, "div_factor"_a = 25.0, "final_div_factor"_a = 1e4,
      "Rises to the base rate and falls again, as PyTorch's OneCycleLR.");
  m.def(
      "warmup",
      [](int64_t steps, double start, const std::optional<Schedule>& then) {
        return warmup({.steps = steps, .start = start, .then = then.value_or(Schedule())});
      },
      "steps"_a, "start"_a = 1.0 / 3, "then"_a = nb::none(), "then.warmup(steps, start).");
  m.def(
      "time_decay", [](double decay) { return time_decay({decay}); }, "decay"_a,
      "lr / (1 + decay * step).");
}

}  // namespace

void bind_optim(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "optim");
  bind_schedules(scope);
  bind_base(scope);
  bind_param_group(scope);
  bind_optimizers(scope);
  scope.def(
      "clip_grad_norm_",
      [](nb::handle parameters, double max_norm) {
        const Tensors of = parse_tensors(parameters, "clip_grad_norm_");
        return without_gil([&] { return clip_grad_norm_(of, max_norm); });
      },
      "parameters"_a, "max_norm"_a,
      "Scales the gradients to a norm of at most max_norm; returns the norm they had.");
  scope.def(
      "clip_grad_value_",
      [](nb::handle parameters, double clip_value) {
        const Tensors of = parse_tensors(parameters, "clip_grad_value_");
        without_gil([&] { clip_grad_value_(of, clip_value); });
      },
      "parameters"_a, "clip_value"_a, "Brings every element of the gradients within a limit.");
}

}  // namespace mica::python

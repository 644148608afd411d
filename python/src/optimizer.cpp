// What all optimizers have, and those that are written in Python.
#include "mica/optim/optimizer.h"

#include <nanobind/stl/map.h>

#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/view/view.h"
#include "python/src/gradients.h"
#include "python/src/module_handle.h"
#include "python/src/optim.h"

namespace mica::python {
namespace {

using namespace optim;

/// One of optimizer.param_groups.
struct ParamGroup {
  nb::object optimizer;
  size_t index;
  GroupAccess access;

  Optimizer& of() const { return nb::cast<Optimizer&>(optimizer); }
  nb::dict free() const { return nb::borrow<nb::dict>(optimizer.attr(kFreeKeys)[index]); }
  nb::dict all() const {
    nb::dict dict;
    nb::list params;
    for (const Tensor& p : of().parameters(index)) params.append(tensor_object(p));
    dict["params"] = params;
    dict["lr"] = without_gil([&] { return of().current_lr(index); });
    dict.update(access.get(of(), index));
    if (of().momenta().defined()) {
      const double momentum = without_gil([&] { return momentum_place().item(); });
      if (dict.contains("betas")) {
        dict["betas"] = nb::make_tuple(momentum, dict["betas"][1]);
      } else {
        dict["momentum"] = momentum;
      }
    }
    dict.update(free());
    return dict;
  }
  void set(const std::string& key, nb::handle value) const {
    if (key == "params")
      raise_type_error("param_groups: 'params' cannot be set; there is add_param_group");
    if (key == "lr") {
      const auto lr = nb::cast<double>(value);
      without_gil([&] { of().set_current_lr(index, lr); });
    } else if (!access.set(of(), index, key, value)) {
      free()[key.c_str()] = value;
    } else if (of().momenta().defined() && (key == "momentum" || key == "betas")) {
      const auto momentum =
          nb::cast<double>(key == "betas" ? nb::object(value[0]) : nb::borrow(value));
      without_gil([&] { fill_(momentum_place(), momentum); });
    }
  }

 private:
  /// Where a scheduler sets it.
  Tensor momentum_place() const { return select(of().momenta(), 0, static_cast<int64_t>(index)); }
};

void bind_param_group(nb::module_& m) {
  nb::class_<ParamGroup>(
      m, "ParamGroup",
      "One of optimizer.param_groups: 'params', 'lr', the other options and keys "
      "of one's own.")
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
      .def(
          "get",
          [](const ParamGroup& self, nb::handle key, nb::handle other) {
            const nb::dict all = self.all();
            return all.contains(key) ? nb::object(all[key]) : nb::borrow(other);
          },
          "key"_a, "default"_a = nb::none())
      .def("__repr__", [](const ParamGroup& self) { return nb::repr(self.all()); });
}

/// An optimizer whose update is a method in Python.
class PythonOptimizer final : public Optimizer {
 public:
  PythonOptimizer(nb::handle self, const std::string& name) : Optimizer(name), self_(self) {}

  void add(const Tensors& parameters, double lr, nb::dict initial) {
    std::vector<State> states;
    for (auto [key, value] : initial) {
      states.push_back({nb::cast<std::string>(key), nb::cast<double>(value)});
      if (groups() == 0) names_.push_back(states.back().name);
    }
    without_gil([&] { add_group(parameters, lr, states); });
  }
  void begin() {
    without_gil([&] { start(); });
  }
  void changed() { options_changed(); }

 private:
  bool works_on_masters() const override { return true; }

  void update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) override {
    const nb::gil_scoped_acquire acquire;
    const nb::dict keys = nb::borrow<nb::dict>(self_.attr(kFreeKeys)[group]);
    for (size_t i = 0; i < lists.parameters.size(); ++i) {
      const Tensor& p = lists.parameters[i];
      nb::dict options;
      options.update(keys);
      options["lr"] = cast(reshape(lr, {}), p.dtype());
      options["step"] = step;
      nb::dict state;
      for (size_t s = 0; s < names_.size(); ++s)
        state[names_[s].c_str()] = nb::cast(lists.states[s][i]);
      self_.attr("update")(p, lists.grads[i], state, options);
    }
  }

  nb::handle self_;  ///< the object this is in
  std::vector<std::string> names_;
};

nb::dict no_options(const Optimizer&, size_t) { return {}; }
/// Its options are free keys; update() reads them, so a compiled step is captured again.
bool set_free(Optimizer& optimizer, size_t, const std::string&, nb::handle) {
  if (auto* own = dynamic_cast<PythonOptimizer*>(&optimizer)) own->changed();
  return false;
}
constexpr GroupAccess kFreeAccess = {no_options, set_free};

/// A group's keys: those of the dictionary before the defaults; gives its parameters and rate.
std::pair<Tensors, double> take_group(nb::handle entry, nb::dict defaults, nb::dict keys) {
  keys.update(defaults);
  keys.update(nb::borrow<nb::dict>(entry));
  if (!keys.contains("params") || !keys.contains("lr"))
    raise_type_error("Optimizer: a group needs 'params' and 'lr', got {}",
                     nb::repr(keys.attr("keys")()).c_str());
  std::pair<Tensors, double> taken = {parse_tensors(keys["params"], "Optimizer"),
                                      nb::cast<double>(keys["lr"])};
  nb::del(keys["params"]);
  nb::del(keys["lr"]);
  return taken;
}

void make_python_optimizer(nb::pointer_and_handle<Optimizer> self, nb::handle params,
                           nb::dict defaults, nb::handle state) {
  nb::dict initial;
  if (nb::isinstance<nb::dict>(state)) {
    initial = nb::borrow<nb::dict>(state);
  } else {
    for (nb::handle name : state) initial[name] = 0.0;
  }
  nb::list entries;
  if (is_list_of_groups(params)) {
    for (nb::handle entry : params) entries.append(entry);
  } else {
    nb::dict all;
    all["params"] = params;
    entries.append(all);
  }
  nb::list free;
  std::vector<std::pair<Tensors, double>> groups;
  for (nb::handle entry : entries) {
    nb::dict keys;
    groups.push_back(take_group(entry, defaults, keys));
    free.append(keys);
  }
  auto* made = new (static_cast<void*>(self.p)) PythonOptimizer(self.h, class_name(self.h));
  try {
    for (const auto& [parameters, lr] : groups) made->add(parameters, lr, initial);
    made->begin();
  } catch (...) {
    made->~PythonOptimizer();
    throw;
  }
  self.h.attr("defaults") = defaults;
  self.h.attr("_state_names") = initial;
  self.h.attr(kFreeKeys) = free;
}

void add_python_group(nb::handle self, nb::handle entry) {
  auto* own = dynamic_cast<PythonOptimizer*>(nb::cast<Optimizer*>(self));
  if (!own) raise_type_error("add_param_group: {} has one of its own", class_name(self));
  nb::dict keys;
  const auto [parameters, lr] =
      take_group(entry, nb::borrow<nb::dict>(self.attr("defaults")), keys);
  own->add(parameters, lr, nb::borrow<nb::dict>(self.attr("_state_names")));
  nb::borrow<nb::list>(self.attr(kFreeKeys)).append(keys);
}

nb::object step_with(Optimizer& optimizer, nb::handle closure, const std::optional<Tensor>& where) {
  nb::object loss = nb::none();
  if (!closure.is_none()) loss = closure();
  without_gil([&] { optimizer.step(or_undefined(where)); });
  return loss;
}

}  // namespace

bool is_list_of_groups(nb::handle params) {
  const bool sequence = nb::isinstance<nb::list>(params) || nb::isinstance<nb::tuple>(params);
  return sequence && nb::len(params) > 0 && nb::isinstance<nb::dict>(params[0]);
}

nb::list param_groups(nb::handle self, const GroupAccess& access) {
  const auto& optimizer = nb::cast<const Optimizer&>(self);
  nb::list groups;
  for (size_t i = 0; i < optimizer.groups(); ++i)
    groups.append(ParamGroup{nb::borrow(self), i, access});
  return groups;
}

void bind_optimizer_base(nb::module_& m) {
  bind_param_group(m);
  nb::class_<Optimizer, PythonOptimizer>(
      m, "Optimizer",
      "What all optimizers have. One of one's own is a class with\n"
      "`update(self, param, grad, state, group)`, which writes to `param` and to the tensors in "
      "the "
      "dict `state`;\n"
      "group['lr'] and group['step'] are tensors there, the other keys as they were given.",
      nb::dynamic_attr())
      .def("__init__", make_python_optimizer, "params"_a, "defaults"_a, nb::kw_only(),
           "state"_a = nb::make_tuple(),
           "params: tensors, or dicts with 'params' and other keys. defaults: a dict with 'lr' and "
           "the keys that update() reads. state: the names of the tensors that are kept for each "
           "parameter, zeros at first, or a dict from names to what they are filled with.")
      .def("step", step_with, "closure"_a = nb::none(), nb::kw_only(), "where"_a = nb::none(),
           "Updates every parameter that requires a gradient and has one. Where the flag `where`, "
           "one bool on the device, is false nothing changes. Returns what closure() gave.")
      .def(
          "zero_grad",
          [](const Optimizer& o, bool set_to_none) {
            if (set_to_none) return o.zero_grad();
            fill_gradients(o.parameters());
          },
          "set_to_none"_a = true, ReleaseGil(),
          "Makes all gradients None, or with set_to_none=False those that are there zero.")
      .def_prop_ro(
          "param_groups", [](nb::handle self) { return param_groups(self, kFreeAccess); },
          kParamGroupsDoc)
      .def("add_param_group", add_python_group, "param_group"_a, "Adds a group: a dict.")
      .def_prop_rw(
          "lr", [](const Optimizer& o) { return without_gil([&] { return o.lr(); }); },
          [](Optimizer& o, double lr) { without_gil([&] { o.set_lr(lr); }); },
          "The base learning rate (of the first group; set for all); a compiled step sees a new "
          "one.")
      .def(
          "set_lr", [](Optimizer& o, double lr, size_t group) { o.set_lr(group, lr); }, "lr"_a,
          "group"_a, ReleaseGil(), "Sets the base learning rate of one group.")
      .def_prop_ro(
          "base_rates", [](const Optimizer& o) { return o.base_rates(); },
          "The base rates of the groups in device memory.")
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

}  // namespace mica::python

// Gradients: grad, functions with gradients of their own, hooks, checkpoints and checks.
#include "mica/autograd/autograd.h"

#include "mica/autograd/anomaly.h"
#include "mica/autograd/checkpoint.h"
#include "mica/autograd/function.h"
#include "mica/autograd/gradcheck.h"
#include "python/src/callback.h"
#include "python/src/values.h"

namespace mica::python {

Tensors result_tensors(nb::handle value, const char* what, bool& single) {
  single = nb::isinstance<Tensor>(value);
  if (!single && !PyTuple_Check(value.ptr()) && !PyList_Check(value.ptr()))
    raise_type_error("{} must return a tensor or a tuple of them, got {}", what, class_name(value));
  return parse_tensors(value, what);
}

nb::object result_object(const Tensors& tensors, bool single) {
  return single ? nb::cast(tensors.at(0)) : nb::object(to_tuple(tensors));
}

namespace {

/// What forward and backward of a function in Python share; attributes may be added.
struct PythonContext {
  FunctionContext* current = nullptr;  ///< while forward or backward runs
  nb::object needs_input_grad;

  FunctionContext& get() const {
    check(current != nullptr, "autograd.Function: ctx is used outside of forward and backward");
    return *current;
  }
};

/// Makes a context usable while it lives.
class Entered {
 public:
  Entered(PythonContext& context, FunctionContext& c) : context_(context) { context.current = &c; }
  ~Entered() { context_.current = nullptr; }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  PythonContext& context_;
};

/// The gradients of the arguments that are tensors, out of one for each argument.
Tensors read_gradients(nb::handle value, const std::vector<bool>& is_tensor,
                       const std::string& name) {
  const bool several = PyTuple_Check(value.ptr()) || PyList_Check(value.ptr());
  const nb::tuple given = several ? nb::tuple(nb::borrow(value)) : nb::make_tuple(value);
  check(given.size() == is_tensor.size(),
        "{}: its backward gave {} gradients for {} arguments (None for those that have none)", name,
        given.size(), is_tensor.size());
  Tensors gradients;
  for (size_t i = 0; i < is_tensor.size(); ++i) {
    const nb::object g = given[i];
    if (is_tensor[i]) {
      if (!g.is_none() && !nb::isinstance<Tensor>(g))
        raise_type_error("{}: its backward must return tensors or None, got {}", name,
                         class_name(g));
      gradients.push_back(g.is_none() ? Tensor() : nb::cast<Tensor>(g));
    } else if (!g.is_none()) {
      fail("{}: its backward gave a gradient for argument {}, which is no tensor", name, i);
    }
  }
  return gradients;
}

nb::object apply_function(nb::handle type, const nb::args& arguments) {
  const auto name = nb::cast<std::string>(type.attr("__name__"));
  Tensors inputs;
  std::vector<bool> is_tensor;
  nb::list needs;
  for (const nb::handle a : arguments) {
    is_tensor.push_back(nb::isinstance<Tensor>(a));
    if (is_tensor.back()) inputs.push_back(nb::cast<Tensor>(a));
    needs.append(is_tensor.back() && grad_enabled() && inputs.back().requires_grad());
  }
  const nb::object context = nb::type<PythonContext>()();
  nb::cast<PythonContext&>(context).needs_input_grad = nb::tuple(needs);
  bool single = false;
  const Shared kept(context);
  const Shared function(type);
  const Tensors outputs = call_function(
      name, inputs,
      [&](FunctionContext& c) {
        const Entered entered(nb::cast<PythonContext&>(context), c);
        const nb::object result = type.attr("forward")(context, *arguments);
        return result_tensors(result, (name + ".forward").c_str(), single);
      },
      [kept, function, is_tensor, name](FunctionContext& c, const Tensors& cotangents) {
        const nb::gil_scoped_acquire acquire;
        const Entered entered(nb::cast<PythonContext&>(kept.get()), c);
        const nb::object result =
            function.get().attr("backward")(kept.get(), *to_tuple(cotangents));
        return read_gradients(result, is_tensor, name);
      });
  return result_object(outputs, single);
}

void bind_function(nb::module_& m) {
  nb::class_<PythonContext>(m, "FunctionCtx", nb::dynamic_attr(),
                            "What forward and backward of a Function share.")
      .def(nb::init<>())
      .def(
          "save_for_backward",
          [](PythonContext& self, const nb::args& tensors) {
            Tensors all;
            for (const nb::handle t : tensors)
              all.push_back(t.is_none() ? Tensor() : nb::cast<Tensor>(t));
            self.get().save(all);
          },
          "Keeps inputs and outputs, and other tensors as constants; forward calls it once.")
      .def_prop_ro(
          "saved_tensors", [](PythonContext& self) { return to_tuple(self.get().saved()); },
          "What was saved, in backward.")
      .def_ro("needs_input_grad", &PythonContext::needs_input_grad,
              "For each argument of forward whether its gradient is asked for.");
  m.def("apply_function", apply_function, "type"_a, "arguments"_a);
}

/// A Python function of tensors as C++ calls it.
std::function<Tensors(const Tensors&)> as_function(nb::handle function, const char* what,
                                                   const std::shared_ptr<bool>& single) {
  return [f = Shared(function), what, single](const Tensors& in) {
    const nb::gil_scoped_acquire acquire;
    return result_tensors(f.get()(*to_tuple(in)), what, *single);
  };
}

/// Arguments that hold no tensors are closed over.
nb::object run_checkpoint(nb::handle function, const nb::args& arguments) {
  const Shared f(function);
  std::vector<Constant> constants;
  std::vector<Shared> others;  // what is neither a tensor nor a tree of them, by its argument
  std::vector<bool> is_other;
  std::vector<Values> in;
  const ValuesPath root("arguments");
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::vector<Constant> own;
    Values value;
    bool known = true;
    try {
      value = values_from(arguments[i], ValuesPath(root, static_cast<int64_t>(i)), &own);
    } catch (const nb::builtin_exception&) {
      known = false;
    }
    is_other.push_back(!known || value.is_nothing());
    if (is_other.back()) {
      others.emplace_back(arguments[i]);
      continue;
    }
    in.push_back(std::move(value));
    constants.insert(constants.end(), own.begin(), own.end());
  }
  const auto made_constants = std::make_shared<std::vector<Constant>>();
  const std::function<Values(const Values&)> body = [=](const Values& inputs) {
    const nb::gil_scoped_acquire acquire;
    const nb::object trees = values_to_python(inputs, constants);
    nb::list call;
    size_t tree = 0;
    size_t other = 0;
    for (const bool closed_over : is_other)
      call.append(closed_over ? nb::borrow(others[other++].get()) : nb::object(trees[tree++]));
    made_constants->clear();
    return values_from(f.get()(*call), ValuesPath("checkpoint: the function's result"),
                       made_constants.get());
  };
  const Values inputs = Values::list(std::move(in));
  const Values out = without_gil([&] { return checkpoint(body, inputs); });
  return values_to_python(out, *made_constants);
}

void bind_checks(nb::module_& m) {
  nb::class_<GradcheckResult>(m, "GradcheckResult", "True where the gradients agree.")
      .def_ro("ok", &GradcheckResult::ok, "Whether they agree.")
      .def_ro("worst", &GradcheckResult::worst, "The largest relative error met.")
      .def_ro("message", &GradcheckResult::message, "Where it is, with both values.")
      .def("__bool__", [](const GradcheckResult& self) { return self.ok; })
      .def("__repr__", [](const GradcheckResult& self) {
        return self.ok ? fmt::format("GradcheckResult(ok, worst={:.3g})", self.worst)
                       : fmt::format("GradcheckResult({})", self.message);
      });
  using Check = GradcheckResult (*)(const std::function<Tensors(const Tensors&)>&, const Tensors&,
                                    GradcheckOptions);
  const Check first = [](const auto& f, const Tensors& in, GradcheckOptions o) {
    return gradcheck(f, in, o);
  };
  const Check second = [](const auto& f, const Tensors& in, GradcheckOptions o) {
    return gradgradcheck(f, in, o);
  };
  for (const auto& [name, run] : {std::pair{"gradcheck", first}, {"gradgradcheck", second}}) {
    m.def(
        name,
        [name, check_it = run](nb::handle function, nb::handle inputs, double step,
                               double tolerance, int64_t full_up_to, int directions,
                               uint64_t seed) {
          const auto f = as_function(function, name, std::make_shared<bool>());
          const Tensors in = parse_tensors(inputs, name);
          return without_gil([&] {
            return check_it(f, in,
                            {.step = step,
                             .tolerance = tolerance,
                             .full_up_to = full_up_to,
                             .directions = directions,
                             .seed = seed});
          });
        },
        "function"_a, "inputs"_a, "step"_a = 1e-5, "tolerance"_a = 1e-6, "full_up_to"_a = 64,
        "directions"_a = 2, "seed"_a = 1,
        "Compares gradients with central differences, for a random cotangent. Inputs that require "
        "a gradient must be float64.");
  }
}

}  // namespace

void bind_autograd(nb::module_& m) {
  m.def("is_grad_enabled", grad_enabled,
        "Whether operators are recorded for backward in this thread.");
  m.def("_set_grad_enabled", set_grad_enabled, "mode"_a);
  m.def(
      "grad",
      [](nb::handle outputs, nb::handle inputs, nb::handle grad_outputs,
         std::optional<bool> retain_graph, bool create_graph, bool /*only_inputs*/,
         std::optional<bool> allow_unused, bool materialize_grads) {
        const Tensors of = parse_tensors(outputs, "grad");
        const Tensors for_inputs = parse_tensors(inputs, "grad");
        const Tensors cotangents =
            grad_outputs.is_none() ? Tensors() : parse_tensors(grad_outputs, "grad");
        return to_tuple(without_gil([&] {
          Tensors grads = grad(
              of, for_inputs, cotangents,
              {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph});
          for (size_t i = 0; i < grads.size(); ++i) {
            if (grads[i].defined()) continue;
            check(allow_unused.value_or(true),
                  "grad: outputs do not depend on input {}, and allow_unused is False", i);
            if (materialize_grads) grads[i] = zeros_like(for_inputs[i]);
          }
          return grads;
        }));
      },
      "outputs"_a, "inputs"_a, "grad_outputs"_a = nb::none(), "retain_graph"_a = nb::none(),
      "create_graph"_a = false, "only_inputs"_a = true, "allow_unused"_a = nb::none(),
      "materialize_grads"_a = false,
      "The gradients of outputs for inputs as a tuple, without touching any .grad. Where there is "
      "no dependence None, zeros if materialize_grads is set, and an error if allow_unused is "
      "False. retain_graph is create_graph unless said.");

  nb::module_ scope = add_submodule(m, "autograd");
  scope.def(
      "backward",
      [](nb::handle tensors, nb::handle grad_tensors, bool retain_graph, bool create_graph) {
        const Tensors of = parse_tensors(tensors, "backward");
        Tensors cotangents(of.size());
        if (!grad_tensors.is_none()) cotangents = parse_tensors(grad_tensors, "backward");
        without_gil([&] {
          backward(of, cotangents, {.retain_graph = retain_graph, .create_graph = create_graph});
        });
      },
      "tensors"_a, "grad_tensors"_a = nb::none(), "retain_graph"_a = false,
      "create_graph"_a = false, "Adds the gradients of all of them together to the leaves' .grad.");
  nb::class_<HookHandle>(scope, "HookHandle", "Takes a hook away again.")
      .def("remove", &HookHandle::remove, "The hook is called no more.");
  bind_hooks();
  bind_function(scope);
  bind_checks(scope);
  scope.def("checkpoint", run_checkpoint, "function"_a, "arguments"_a,
            "function(*arguments), keeping only the inputs for backward, which runs the function "
            "again: less memory for more time.");
  scope.def("is_anomaly_enabled", detect_anomaly, "Whether anomaly mode is on in this thread.");
  scope.def("_set_detect_anomaly", set_detect_anomaly, "mode"_a);
}

}  // namespace mica::python

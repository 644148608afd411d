#include <algorithm>
#include <mutex>

#include "mica/core/fork.h"
#include "mica/graph/plan.h"
#include "mica/profile/memory.h"
#include "python/src/callback.h"
#include "python/src/guards.h"
#include "python/src/values.h"

namespace mica::python {
namespace {

/// A Python error that says a function cannot be captured.
struct Refusal : Unsupported {
  explicit Refusal(const nb::python_error& e) : Unsupported("compile"), error(e) {}
  nb::python_error error;
};

/// What Python keeps beside a plan. Made, asked and let go of under the GIL.
struct PythonCompanion final : Companion {
  Values structure;  ///< of the result
  std::vector<Constant> constants;
  PythonGuards guards;

  PythonCompanion() = default;
  PythonCompanion(const PythonCompanion&) = delete;
  PythonCompanion& operator=(const PythonCompanion&) = delete;
  ~PythonCompanion() override {
    if (!nb::is_alive()) {
      guards.objects().release();
      return;
    }
    const nb::gil_scoped_acquire acquire;
    guards = {};
  }
  std::string broken() const override {
    const nb::gil_scoped_acquire acquire;
    const char* text = guards.broken();
    return text ? text : "";
  }
};

/// How many captures of Python functions this thread is in: of nested ones the first counts.
class Depth {
 public:
  class Scope {
   public:
    Scope() { ++count(); }
    ~Scope() { --count(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };
  static bool nested() { return count() > 0; }

 private:
  static int& count() {
    thread_local int captures = 0;
    return captures;
  }
};

/// A Python function that is captured once per input specs and replayed.
class PythonCompiled {
  /// What f says of the last call, which another thread's does not replace meanwhile.
  template <class F>
  auto with_last(F f) const {
    const nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    return f(compiled_);
  }

 public:
  PythonCompiled(nb::object function, int max_plans, std::vector<int64_t> buckets)
      : function_(std::move(function)),
        compiled_(CompiledFunction::Body([this](std::span<const Tensor> in, const CallForm& form) {
                    return capture(in, form);
                  }),
                  {.max_plans = max_plans, .buckets = buckets}),
        max_plans_(max_plans),
        buckets_(std::move(buckets)) {}

  /// Another function, compiled with the same options.
  nb::object like(nb::handle function) const {
    return nb::type<PythonCompiled>()(function, max_plans_, buckets_);
  }

  nb::object call(const nb::args& args, const nb::kwargs& kwargs) { return run(args, kwargs, 1); }
  nb::object call_by_position(const nb::args& args) { return run(args, {}, 1); }
  nb::object repeat(int times) { return run(nb::steal<nb::args>(PyTuple_New(0)), {}, times); }

  /// `named` is a dictionary, or null.
  nb::object run(const nb::args& args, nb::handle named, int times) {
    CallForm form;
    const Tensors in = take_apart(args, named, form);
    const Numbers numbers = Depth::nested() ? Numbers() : place_numbers(form);
    const CallOutcome outcome = call_without_gil(in, times, form, numbers);
    const auto& made = static_cast<const PythonCompanion&>(*outcome.companion);
    if (made.structure.is_tensor()) return nb::cast(outcome.results[0]);
    return values_to_python(unflatten(made.structure, outcome.results), made.constants);
  }

  const nb::object& function() const { return function_; }
  int captures() const {
    return with_last([](const CompiledFunction& c) { return c.captures(); });
  }
  std::vector<std::string> kernels() const {
    return with_last([](const CompiledFunction& c) {
      return c.plan() ? c.plan()->kernels() : std::vector<std::string>();
    });
  }
  bool is_one_launch() const {
    return with_last(
        [](const CompiledFunction& c) { return c.plan() && c.plan()->is_one_launch(); });
  }

  nb::object memory() const {
    const auto m = with_last([](const CompiledFunction& c) {
      return c.plan() ? std::optional(profiler::memory_of(*c.plan())) : std::nullopt;
    });
    if (!m) return nb::none();
    nb::dict all;
    all["weights"] = m->weights;
    all["optimizer"] = m->optimizer;
    all["others"] = m->others;
    all["kept"] = m->kept;
    all["arena"] = m->arena;
    all["total"] = m->total();
    all["eager"] = m->eager;
    nb::dict fullest;
    fullest["at"] = m->at;
    fullest["arguments"] = m->arguments;
    fullest["activations"] = m->activations;
    fullest["gradients"] = m->gradients;
    fullest["updates"] = m->updates;
    fullest["workspace"] = m->workspace;
    all["fullest"] = fullest;
    nb::list holders;
    for (const profiler::Holder& h : m->holders)
      holders.append(nb::make_tuple(h.op, h.module, to_string(Scope{.phase = h.phase}), h.bytes));
    all["holders"] = holders;
    return all;
  }

  // The function may hold this object, through a module's globals for one, and so may what guards
  // compare: the collector has to see them.
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    const auto* compiled = nb::inst_ptr<PythonCompiled>(self);
    Py_VISIT(compiled->function_.ptr());
    Py_VISIT(compiled->memory_.ptr());
    Py_VISIT(compiled->numbers_.ptr());
    for (const std::weak_ptr<PythonCompanion>& companion : compiled->companions_)
      if (const auto alive = companion.lock()) Py_VISIT(alive->guards.objects().ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    auto* compiled = nb::inst_ptr<PythonCompiled>(self);
    compiled->function_.reset();
    compiled->memory_.reset();
    compiled->numbers_.reset();
    for (const std::weak_ptr<PythonCompanion>& companion : compiled->companions_)
      if (const auto alive = companion.lock()) alive->guards = {};
    return 0;
  }

 private:
  /// The tensors among the arguments. The form says nothing where they are all there is.
  static Tensors take_apart(const nb::args& args, nb::handle named, CallForm& form) {
    Tensors in;
    if (!named.is_valid() || PyDict_Size(named.ptr()) == 0) {
      for (const nb::handle a : args) {
        const Tensor* t = tensor_or_null(a);
        if (!t) break;
        in.push_back(*t);
      }
      if (in.size() == args.size()) return in;
    }
    std::vector<Values> all;
    for (size_t i = 0; i < args.size(); ++i)
      all.push_back(values_from(args[i], ValuesPath(fmt::format("compile: argument {}", i + 1)),
                                &form.constants));
    std::vector<Values::Entry> by_name;
    if (named.is_valid())
      for (const auto& [key, value] : nb::borrow<nb::dict>(named)) {
        const auto name = nb::cast<std::string>(key);
        by_name.emplace_back(
            name, values_from(value, ValuesPath("compile: argument " + name), &form.constants));
      }
    const Values both =
        Values::list({Values::list(std::move(all)), Values::dict(std::move(by_name))});
    form.arguments = structure_of(both);
    return flatten(both);
  }

  /// Ints and floats among the arguments, by their number among the constants.
  using Numbers = std::vector<std::pair<int64_t, nb::object>>;

  /// Takes the numbers out of a form: they are guarded as those are that a function reads
  /// elsewhere, and read anew by each run where they keep changing.
  static Numbers place_numbers(CallForm& form) {
    Numbers numbers;
    for (size_t i = 0; i < form.constants.size(); ++i) {
      Constant& constant = form.constants[i];
      const auto place = static_cast<int64_t>(i);
      if (const auto* number = std::get_if<int64_t>(&constant)) {
        numbers.emplace_back(place, nb::cast(*number));
      } else if (const auto* real = std::get_if<double>(&constant)) {
        numbers.emplace_back(place, nb::cast(*real));
      } else {
        continue;
      }
      constant = PlacedNumber{place};
    }
    return numbers;
  }

  /// The arguments of a call: a list and a dictionary.
  nb::tuple arguments_of(std::span<const Tensor> in, const CallForm& form) const {
    nb::list arguments;
    if (!form.arguments.is_nothing()) {
      const nb::object both =
          values_to_python(unflatten(form.arguments, in), form.constants, numbers_);
      return nb::make_tuple(nb::list(both[0]), both[1]);
    }
    for (const Tensor& t : in) arguments.append(nb::cast(t));
    return nb::make_tuple(arguments, nb::dict());
  }

  /// The numbers that a session is to guard.
  static nb::list places_in(const CallForm& form) {
    nb::list places;
    for (const Constant& constant : form.constants)
      if (const auto* number = std::get_if<PlacedNumber>(&constant)) places.append(number->place);
    return places;
  }

  CallOutcome capture(std::span<const Tensor> in, const CallForm& form) {
    const nb::gil_scoped_acquire acquire;
    CallOutcome outcome;
    const auto companion = std::make_shared<PythonCompanion>();
    try {
      // Inside another capture it is that one which watches what is read.
      const nb::object session =
          Depth::nested() ? nb::none()
                          : nb::module_::import_("mica._guards")
                                .attr("Session")(function_, memory_, numbers_, places_in(form));
      const Depth::Scope scope;
      // Within the session: arguments may have stand-ins for numbers, and so may the result.
      const auto call = [&] {
        const nb::tuple both = arguments_of(in, form);
        const nb::object result =
            function_(*nb::borrow<nb::list>(both[0]), **nb::borrow<nb::dict>(both[1]));
        const Values made = values_from(result, ValuesPath("compile: the function's result"),
                                        &companion->constants);
        companion->structure = structure_of(made);
        outcome.results = flatten(made);
      };
      if (session.is_none()) {
        call();
      } else {
        session.attr("run")(nb::cpp_function(call));
        companion->guards = PythonGuards(nb::cast<nb::list>(session.attr("guards")));
      }
    } catch (nb::python_error& e) {
      rethrow(e);
    }
    std::erase_if(companions_, [](const auto& c) { return c.expired(); });
    companions_.push_back(companion);
    outcome.companion = companion;
    return outcome;
  }

  CallOutcome call_without_gil(const Tensors& in, int times, const CallForm& form,
                               const Numbers& numbers) {
    try {
      return without_gil([&] {
        if (numbers.empty()) return compiled_.call(in, times, form);
        // While this is captured, its body may call itself.
        const std::lock_guard lock(mutex_);
        {
          const nb::gil_scoped_acquire acquire;
          for (const auto& [place, number] : numbers) numbers_[nb::int_(place)] = number;
        }
        return compiled_.call(in, times, form);
      });
    } catch (const Refusal& refusal) {
      throw nb::python_error(refusal.error);
    }
  }

  /// What cannot be captured is Unsupported for C++ too: then nothing of the function is done.
  [[noreturn]] static void rethrow(nb::python_error& e) {
    if (e.matches(nb::module_::import_("mica._mica").attr("Unsupported"))) throw Refusal(e);
    throw e;
  }

  nb::object function_;
  nb::object memory_ = nb::dict();  ///< what the guards of one capture tell the next
  /// Those among the arguments of the call in progress.
  nb::dict numbers_;
  std::vector<std::weak_ptr<PythonCompanion>> companions_;
  CompiledFunction compiled_;
  int max_plans_;
  std::vector<int64_t> buckets_;
  mutable LongMutex mutex_;  ///< of `numbers_`, and of calls that have some
};

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(PythonCompiled::traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(PythonCompiled::clear)},
                       {0, nullptr}};

}  // namespace

void bind_compile(nb::module_& m) {
  nb::class_<PythonCompiled>(m, "CompiledFunction", nb::type_slots(slots),
                             "What compile() returns.")
      .def(nb::init<nb::object, int, std::vector<int64_t>>(), "function"_a, "max_plans"_a = 32,
           "buckets"_a = std::vector<int64_t>())
      // Apart from the next, which makes a dictionary for every call.
      .def("__call__", &PythonCompiled::call_by_position, "args"_a)
      .def("__call__", &PythonCompiled::call, "args"_a, "kwargs"_a)
      .def("repeat", &PythonCompiled::repeat, "times"_a,
           "Calls a function without arguments so many times; on a GPU by one launch.")
      .def_prop_ro("__wrapped__", &PythonCompiled::function)
      .def("_like", &PythonCompiled::like, "function"_a,
           "Another function, compiled with the same options.")
      .def(
          "__get__",
          [](nb::object self, nb::handle owner, nb::handle /*type*/) {
            return owner.is_none()
                       ? self
                       : nb::module_::import_("mica._methods").attr("bind")(self, owner);
          },
          "owner"_a.none(), "type"_a.none() = nb::none())
      // What else is asked of it is the function's: __name__, __qualname__, __module__.
      .def("__getattr__",
           [](const PythonCompiled& self, nb::handle name) { return self.function().attr(name); })
      .def_prop_ro("captures", &PythonCompiled::captures, "How often the function was captured.")
      .def_prop_ro("kernels", &PythonCompiled::kernels,
                   "The kernels of the last call, \"conv2d: onednn\", as often as they run.")
      .def_prop_ro("memory", &PythonCompiled::memory,
                   "What the last call's plan needs of memory, in bytes by what it is for, and who "
                   "holds most of what a run makes; None before the first call.")
      .def_prop_ro("is_one_launch", &PythonCompiled::is_one_launch,
                   "Whether the last call was one CUDA graph.")
      .def("__repr__", shows({"__wrapped__", "captures"}));
  // For python/mica/_guards.py.
  m.def("_same_tensor", [](const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); });
  m.def("_is_traced", &Tensor::is_traced);
  // A copy that is made now, also while a function is captured.
  m.def("_to_now", [](const Tensor& t, nb::handle device) {
    const Device there = parse_device(device);
    return without_gil([&] {
      const struct Suspended {
        Recorder* before = exchange_recorder(nullptr);
        ~Suspended() { exchange_recorder(before); }
      } suspended;
      return to(t, there);
    });
  });
  m.def("_capture_input", [](const Tensor& now, nb::handle read, const std::string& name) {
    return capture_input(
        now,
        [f = Shared(read)] {
          const nb::gil_scoped_acquire acquire;
          const nb::object value = f.get()();
          return nb::isinstance<Tensor>(value) ? nb::cast<Tensor>(value) : Tensor();
        },
        name);
  });
  m.def(
      "_capture_effect",
      [](const std::optional<Tensor>& value, nb::handle apply) {
        capture_effect(or_undefined(value), [f = Shared(apply)](const Tensor& result) {
          const nb::gil_scoped_acquire acquire;
          f.get()(or_none(result));
        });
      },
      nb::arg("value").none(), "apply"_a);
  using Decorator = nb::typed<nb::callable, PythonCompiled(nb::object)>;
  m.def(
      "compile",
      [](int max_plans, const std::vector<int64_t>& buckets) {
        const nb::object partial = nb::module_::import_("functools").attr("partial");
        return nb::cast<Decorator>(partial(nb::module_::import_("mica._mica").attr("compile"),
                                           "max_plans"_a = max_plans, "buckets"_a = buckets));
      },
      nb::kw_only(), "max_plans"_a = 32, "buckets"_a = std::vector<int64_t>(),
      "The decorator `@mica.compile(max_plans=4)`.");
  m.def(
      "compile",
      [](nb::handle function, int max_plans, const std::vector<int64_t>& buckets) {
        return nb::type<PythonCompiled>()(function, max_plans, buckets);
      },
      "function"_a, nb::kw_only(), "max_plans"_a = 32, "buckets"_a = std::vector<int64_t>(),
      R"(Captures a function of tensors at its first call and replays it from then on.

Forward pass, backward pass and update become one graph; on a GPU, one CUDA graph. The function takes
and returns tensors, None, numbers and texts, and tuples, lists, dicts, named tuples and dataclasses
of them. It is captured again when shapes, dtypes or the structure of the arguments change, or a
number or text among them; a number that keeps changing is read by each run where it is only
computed with. It keeps the plans of the max_plans kinds of arguments that were used last. Where all
tensors among arguments and results are batches whose rows do not know of each other, buckets names
numbers of rows to capture for: zeros fill a batch up to the next, and are cut off again. Use it as a
decorator, of methods too, which each object then has compiled for itself:

    @mica.compile
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss)");
}

}  // namespace mica::python

// mica.train: the training loop of C++ around a model, a loss and callbacks that may be Python's.
#include <nanobind/stl/filesystem.h>

#include "mica/ops/copy/copy.h"
#include "mica/train/evaluate.h"
#include "mica/train/trainer.h"
#include "python/src/callback.h"
#include "python/src/dataset.h"
#include "python/src/module_handle.h"
#include "python/src/values.h"

namespace mica::python {
namespace {

using Path = std::filesystem::path;
using train::Outcome;

/// A function of Python of an output and a target; None is no function. Borrowed: whoever calls
/// holds it.
train::Comparison as_comparison(nb::handle function, const char* what) {
  if (function.is_none()) return {};
  return [function, what](const Values& output, const Values& target) {
    const nb::gil_scoped_acquire acquire;
    return values_from(function(values_to_python(output), values_to_python(target)),
                       ValuesPath(what));
  };
}

train::Split as_split(nb::handle function) {
  if (function.is_none()) return {};
  return [function](const Values& batch) -> train::Parts {
    const nb::gil_scoped_acquire acquire;
    const nb::object parts = function(values_to_python(batch));
    if (!PyTuple_Check(parts.ptr()) || nb::len(parts) != 2)
      raise_type_error("train: split must return a tuple (inputs, target), got {}",
                       class_name(parts));
    return {values_from(parts[0], ValuesPath("inputs")),
            values_from(parts[1], ValuesPath("target"))};
  };
}

/// One of C++, or an object of Python with name, update and compute, which whoever calls holds.
train::Metric as_metric(nb::handle object) {
  if (object.type().is(nb::type<train::Metric>())) return nb::cast<train::Metric>(object);
  if (!nb::hasattr(object, "update") || !nb::hasattr(object, "compute"))
    raise_type_error("train: expected a metric, an object with update and compute, got {}",
                     class_name(object));
  const nb::object given = nb::getattr(object, "name", nb::none());
  const bool named = PyUnicode_Check(given.ptr()) && nb::len(given) > 0;
  return {
      .name = named ? nb::cast<std::string>(given) : class_name(object),
      .update =
          [object](const Values& output, const Values& target) {
            const nb::gil_scoped_acquire acquire;
            return values_from(
                object.attr("update")(values_to_python(output), values_to_python(target)),
                ValuesPath("the result of update"));
          },
      .compute =
          [object](const Values& state) {
            const nb::gil_scoped_acquire acquire;
            return nb::cast<double>(nb::float_(object.attr("compute")(values_to_python(state))));
          },
      .higher_is_better = nb::cast<bool>(nb::getattr(object, "higher_is_better", nb::cast(true))),
      .is_share = nb::cast<bool>(nb::getattr(object, "is_share", nb::cast(false)))};
}

std::vector<train::Metric> as_metrics(nb::handle objects) {
  std::vector<train::Metric> metrics;
  for (const nb::handle object : nb::iter(objects)) metrics.push_back(as_metric(object));
  return metrics;
}

/// An object of Python that is told of a run, which the trainer's object holds.
class PythonCallback : public train::Callback {
 public:
  explicit PythonCallback(nb::handle object) : object_(object) {
    const nb::object base = nb::module_::import_("mica.train").attr("Callback");
    wants_steps_ =
        nb::hasattr(object, "on_step_end") &&
        !nb::getattr(object.type(), "on_step_end", nb::none()).is(base.attr("on_step_end"));
  }
  void on_fit_begin() override { tell("on_fit_begin"); }
  void on_step_end(int64_t step) override { tell("on_step_end", step); }
  bool wants_steps() const override { return wants_steps_; }
  void on_log(const train::StepRecord& record) override { tell("on_log", record); }
  void on_evaluation_end(int64_t step, const train::Evaluation& evaluation) override {
    tell("on_evaluation_end", step, evaluation);
  }
  void on_epoch_end(const train::EpochResult& result) override { tell("on_epoch_end", result); }
  void on_fit_end(const Outcome& outcome) override { tell("on_fit_end", outcome); }

 private:
  template <class... Args>
  void tell(const char* event, const Args&... args) {
    const nb::gil_scoped_acquire acquire;
    if (nb::hasattr(object_, event)) object_.attr(event)(args...);
  }
  nb::handle object_;
  bool wants_steps_ = false;
};

/// A trainer with the Python objects it uses, which the garbage collector sees through it.
struct PythonTrainer {
  std::optional<nn::Module> model;
  nb::object optimizer;
  nb::object held;  ///< a tuple: loss, metrics, split, callbacks, on_epoch
  Outcome outcome;
  std::unique_ptr<train::Trainer> trainer;

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    const auto* t = nb::inst_ptr<PythonTrainer>(self);
    // The trainer shares this handle, so it stands for one reference.
    const auto* owner = t->model ? std::get_deleter<PythonOwner>(t->model->impl()) : nullptr;
    if (owner) Py_VISIT(owner->object);
    Py_VISIT(t->optimizer.ptr());
    Py_VISIT(t->held.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    if (!nb::inst_ready(self)) return 0;
    auto* t = nb::inst_ptr<PythonTrainer>(self);
    t->trainer.reset();
    t->model.reset();
    t->optimizer.reset();
    t->held.reset();
    return 0;
  }
};

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(PythonTrainer::traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(PythonTrainer::clear)},
                       {0, nullptr}};

void make_trainer(PythonTrainer* self, nb::handle model, nb::handle optimizer, int64_t epochs,
                  int64_t steps_per_epoch, nb::handle loss, nb::handle metrics, nb::handle split,
                  bool compile, int64_t steps_per_launch, double clip_norm,
                  const std::string& precision, int64_t patience, const std::string& best_by,
                  double until_accuracy, int64_t evaluate_every, const Path& out,
                  int64_t save_every, double save_minutes, bool progress, nb::handle on_epoch,
                  nb::handle callbacks, const std::string& config, const std::string& title,
                  const std::string& command) {
  // Lists may change: what is called is held here.
  const nb::tuple metric_objects(nb::borrow(metrics));
  const nb::tuple callback_objects(nb::borrow(callbacks));
  train::TrainerOptions options{.epochs = epochs,
                                .steps_per_epoch = steps_per_epoch,
                                .loss = as_comparison(loss, "the loss"),
                                .metrics = as_metrics(metric_objects),
                                .split = as_split(split),
                                .compile = compile,
                                .steps_per_launch = steps_per_launch,
                                .clip_norm = clip_norm,
                                .precision = precision,
                                .patience = patience,
                                .best_by = best_by,
                                .evaluate_every = evaluate_every,
                                .until_accuracy = until_accuracy,
                                .out = out.string(),
                                .save_every = save_every,
                                .save_minutes = save_minutes,
                                .progress = progress,
                                .config = config,
                                .title = title,
                                .command = command};
  if (!on_epoch.is_none()) {
    options.on_epoch = [on_epoch](const train::EpochResult& result) {
      const nb::gil_scoped_acquire acquire;
      on_epoch(result);
    };
  }
  for (const nb::handle callback : callback_objects)
    options.callbacks.push_back(std::make_shared<PythonCallback>(callback));
  const nn::Module module = module_from(model);
  auto trainer = std::make_unique<train::Trainer>(module, nb::cast<optim::Optimizer&>(optimizer),
                                                  std::move(options));
  new (self)
      PythonTrainer{.model = module,
                    .optimizer = nb::borrow(optimizer),
                    .held = nb::make_tuple(loss, metric_objects, split, callback_objects, on_epoch),
                    .outcome = {},
                    .trainer = std::move(trainer)};
}

bool in_main_thread() {
  const nb::object threading = nb::module_::import_("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

/// Ctrl-C ends the loop after its step, with all saved, and is then raised as Python would have.
Outcome fit(PythonTrainer& self, const PythonLoader& train, const PythonLoader& test) {
  self.outcome = without_gil([&] { return self.trainer->fit(train.loader, test.loader); });
  if (self.outcome.interrupted) {
    if (in_main_thread()) {
      PyErr_SetNone(PyExc_KeyboardInterrupt);
      nb::raise_python_error();
    }
    PyErr_SetInterrupt();  // the main thread's to raise
  }
  return self.outcome;
}

void bind_trainer(nb::module_& m) {
  nb::class_<PythonTrainer>(m, "Trainer", nb::type_slots(slots),
                            "The training loop: epochs, validation, checkpoints, resume.")
      .def(
          "__init__", make_trainer, "model"_a, "optimizer"_a, nb::kw_only(), "epochs"_a = 10,
          "steps_per_epoch"_a = 0, "loss"_a = nb::none(), "metrics"_a = nb::tuple(),
          "split"_a = nb::none(), "compile"_a = true, "steps_per_launch"_a = 0, "clip_norm"_a = 0.0,
          "precision"_a = "", "patience"_a = 0, "best_by"_a = "", "until_accuracy"_a = 0.0,
          "evaluate_every"_a = 0, "out"_a = "", "save_every"_a = 0, "save_minutes"_a = 0.0,
          "progress"_a = true, "on_epoch"_a = nb::none(), "callbacks"_a = nb::tuple(),
          "config"_a = "{}", "title"_a = "A training run", "command"_a = "",
          R"(model(inputs) is trained so that loss(output, target) falls; of a batch that is a tuple
the last part is the target and those before are the inputs, of a dict "target" and the rest, and
split(batch) -> (inputs, target) says otherwise.

steps_per_epoch: an epoch ends after so many steps, or with the data, and the next one goes on there;
0: with the data. loss: cross entropy unless given; a dict or tuple of several is minimised as their sum. metrics: what
is measured on the test data; unless given, what fits the targets. compile: step and evaluation are
captured once and replayed. precision: what is computed in, "f32", "tf32", "bf16" or "f16", the last
two as mica.autocast chooses, f16 with mica.amp.GradScaler; weights stay what they are. best_by: "loss" or the name of a metric, by which the best epoch is kept
and patience, epochs without a better one, is counted. evaluate_every, save_every: steps between
evaluations and checkpoints, beside those of each epoch; save_minutes the same in minutes. out:
directory for checkpoints, metrics and the report. on_epoch(result) is called after each epoch,
callbacks (objects like Callback) at more occasions.)")
      .def("fit", fit, "train"_a, "test"_a,
           "Trains and returns what came of it. Ctrl-C ends it after the step in progress, saves "
           "where `out` is given, and raises KeyboardInterrupt; `outcome` has what was done.")
      .def(
          "stop", [](PythonTrainer& self) { self.trainer->stop(); },
          "Ends a fit after the step or evaluation in progress, with all saved; callbacks and "
          "other "
          "threads may call it.")
      .def(
          "resume",
          [](PythonTrainer& self, const Path& path) {
            without_gil([&] { self.trainer->resume(path.string()); });
          },
          "path"_a, "Goes on from a checkpoint, or from last.safetensors of a directory.")
      .def(
          "kernels", [](const PythonTrainer& self) { return self.trainer->kernels(); },
          "Operators and their kernels in the compiled step, 'conv2d: onednn', as often as they "
          "run; empty without one.")
      .def_ro("outcome", &PythonTrainer::outcome, "Of the last fit.");
}

nb::typed<nb::dict, nb::str, nb::float_> to_dict(const io::Measurements& all) {
  nb::typed<nb::dict, nb::str, nb::float_> dict;
  for (const auto& [name, value] : all) dict[nb::cast(name)] = value;
  return dict;
}

double measured_or_raise(const io::Measurements& all, const std::string& metric, const char* type,
                         const std::string& name) {
  for (const auto& [known, value] : all)
    if (known == metric) return value;
  throw nb::attribute_error(fmt::format("'{}' object has no attribute '{}'", type, name).c_str());
}

const char* name_of(train::Task task) {
  static constexpr std::array kNames = {"classes", "pixels", "text", "numbers", "other"};
  return kNames.at(static_cast<size_t>(task));
}

void bind_metrics(nb::module_& m) {
  using train::Metric;
  nb::class_<Metric> metric(
      m, "Metric",
      R"(A number that says how a model does. One's own derives from it, gives it a name and defines

    update(self, output, target)    what a batch adds to the state: tensors whose shapes are the
                                    same for every batch. It runs on the device, inside the
                                    compiled evaluation.
    compute(self, state)            the number, of the states' sum: float64, on the CPU.

higher_is_better says which way is better, is_share that it is a part of 1, shown in percent.)");
  metric.def(nb::init<>());
  metric.def_prop_ro("name", [](const Metric& self) { return self.name; }, "What it is called.");
  metric.def_prop_ro(
      "higher_is_better", [](const Metric& self) { return self.higher_is_better; },
      "Whether more is better.");
  metric.def_prop_ro(
      "is_share", [](const Metric& self) { return self.is_share; },
      "Whether it is a part of 1, shown in percent.");
  metric.def(
      "update",
      [](const Metric& self, nb::handle output, nb::handle target) {
        check<Unsupported>(
            static_cast<bool>(self.update),
            "train.Metric: a class of one's own defines update(self, output, target)");
        const Values out = values_from(output, ValuesPath("output"));
        const Values truth = values_from(target, ValuesPath("target"));
        return values_to_python(without_gil([&] { return self.update(out, truth); }));
      },
      "output"_a, "target"_a, "What a batch adds to the state.");
  metric.def(
      "compute",
      [](const Metric& self, nb::handle state) {
        check<Unsupported>(static_cast<bool>(self.compute),
                           "train.Metric: a class of one's own defines compute(self, state)");
        const Values sums =
            map_leaves(values_from(state, ValuesPath("state")),
                       [](const Tensor& t) { return to(cast(t, DType::f64), Device::cpu()); });
        return self.compute(sums);
      },
      "state"_a, "The number, of the states' sum.");
  metric.def("__repr__", [](nb::handle self) {
    return fmt::format("{}({})", class_name(self), nb::repr(self.attr("name")).c_str());
  });
  nb::class_<train::Meter>(m, "Meter", "A metric over batches of one's own.")
      .def(
          "__init__",
          [](train::Meter* self, nb::handle of) { new (self) train::Meter(as_metric(of)); },
          "metric"_a, nb::keep_alive<1, 2>())
      .def(
          "add",
          [](train::Meter& self, nb::handle output, nb::handle target) {
            const Values out = values_from(output, ValuesPath("output"));
            const Values truth = values_from(target, ValuesPath("target"));
            without_gil([&] {
              self.add(out, truth);
              return 0;
            });
          },
          "output"_a, "target"_a, "Adds a batch.")
      .def("result", &train::Meter::result, ReleaseGil(), "The number so far.")
      .def("reset", &train::Meter::reset, "Forgets all batches.");
  const auto def = [&](const char* name, Metric (*make)(int64_t), const char* doc) {
    m.def(name, make, "ignore_index"_a = train::kIgnored, doc);
  };
  def("Accuracy", train::accuracy_metric,
      "Of outputs (N, C, …) and classes (N, …), the part whose largest output is their class's.");
  def("MeanIoU", train::mean_iou_metric,
      "Of each class that occurs the intersection over union of truth and guess, and their mean.");
  def("Perplexity", train::perplexity_metric,
      "exp of the mean negative log-likelihood of classes (N, …) by outputs (N, C, …).");
  def("BitsPerCharacter", train::bits_per_character_metric, "The same mean in bits.");
  m.def("TopKAccuracy", train::top_k_metric, "k"_a = 5, "ignore_index"_a = train::kIgnored,
        "The part whose class is among the k largest outputs; equal ones count against it.");
  m.def("confusion_matrix", train::confusion_counts, "output"_a, "target"_a,
        "ignore_index"_a = train::kIgnored, ReleaseGil(),
        "int64 (C, C): of outputs (N, C, …) and classes (N, …), how many there are of each truth, "
        "the "
        "row, and guess. Matrices of batches add.");
  const auto def_error = [&](const char* name, Metric (*make)(), const char* doc) {
    m.def(name, make, doc);
  };
  def_error("MeanSquaredError", train::mean_squared_error_metric,
            "Of outputs and targets of one shape.");
  def_error("RootMeanSquaredError", train::root_mean_squared_error_metric, "Its root.");
  def_error("MeanAbsoluteError", train::mean_absolute_error_metric, "The mean distance.");
  def_error("R2Score", train::r2_metric,
            "1 - squared errors / squared distances from the mean of the targets.");
}

void bind_results(nb::module_& m) {
  using train::EpochResult;
  using train::Evaluation;
  nb::class_<EpochResult> result(
      m, "EpochResult",
      "What one epoch of a training run gave. test_accuracy is metrics[\"accuracy\"], and so on.");
  EpochResult::members([&](const char* name, auto member, const char* doc) {
    if constexpr (std::is_same_v<decltype(member), io::Measurements EpochResult::*>) {
      result.def_prop_ro(
          name, [member](const EpochResult& self) { return to_dict(self.*member); }, doc);
    } else {
      result.def_ro(name, member, doc);
    }
  });
  result.def("__getattr__", [](const EpochResult& self, const std::string& name) {
    const bool test = name.starts_with("test_");
    return measured_or_raise(self.metrics, test ? name.substr(5) : name, "EpochResult", name);
  });
  result.def("__repr__", shows({"epoch", "train_loss", "test_loss", "metrics"}));
  nb::class_<train::StepRecord>(
      m, "StepRecord",
      "The mean loss of some steps of training, up to `step`, and the learning rate.")
      .def_ro("step", &train::StepRecord::step, "The last of them, counted from 1.")
      .def_ro("loss", &train::StepRecord::loss, "Their mean.")
      .def_ro("lr", &train::StepRecord::lr, "Of the last of them.")
      .def("__repr__", shows({"step", "loss", "lr"}));
  nb::class_<train::Mistake>(
      m, "Mistake", "An example that the model got wrong, with the probability of its guess.")
      .def_ro("index", &train::Mistake::index, "In the order the loader gave them.")
      .def_ro("truth", &train::Mistake::truth, "Its class.")
      .def_ro("guess", &train::Mistake::guess, "The class of the largest output.")
      .def_ro("confidence", &train::Mistake::confidence,
              "The probability of the guess, by softmax.")
      .def("__repr__", shows({"index", "truth", "guess", "confidence"}));
  nb::class_<Evaluation>(
      m, "Evaluation",
      "How a model does on the examples of a loader. A metric is also an attribute: "
      "evaluation.accuracy.")
      .def_ro("examples", &Evaluation::examples, "How many there were.")
      .def_ro("loss", &Evaluation::loss, "The mean over the examples; NaN without any.")
      .def_prop_ro(
          "losses", [](const Evaluation& e) { return to_dict(e.losses); },
          "Its parts by name, where it has several.")
      .def_prop_ro(
          "metrics", [](const Evaluation& e) { return to_dict(e.metrics); }, "By name.")
      .def_prop_ro(
          "task", [](const Evaluation& e) { return name_of(e.task); },
          "What the targets are: \"classes\", \"pixels\", \"text\", \"numbers\" or \"other\".")
      .def_ro("classes", &Evaluation::classes, "How many there are; 0 where targets are none.")
      .def_prop_ro(
          "confusion",
          [](const Evaluation& e) { return tensor(e.confusion, {e.classes, e.classes}); },
          "int64 (classes, classes): of each truth and guess how many.")
      .def_ro("mistakes", &Evaluation::mistakes, "Of classes, the most confident first.")
      .def("__getattr__",
           [](const Evaluation& e, const std::string& name) {
             return measured_or_raise(e.metrics, name, "Evaluation", name);
           })
      .def("__repr__", shows({"examples", "loss", "metrics"}));
  nb::class_<Outcome>(m, "Outcome", "What came of a training run.")
      .def_ro("epochs", &Outcome::epochs, "Of each an EpochResult.")
      .def_ro("steps", &Outcome::steps, "Every 50 steps the means since the last.")
      .def_ro("evaluation", &Outcome::evaluation, "The last one; None without any.")
      .def_ro("interrupted", &Outcome::interrupted, "By Ctrl-C.")
      .def_ro("stopped_early", &Outcome::stopped_early, "As `patience` asked for.")
      .def_ro("reached", &Outcome::reached, "Whether it came to `until_accuracy`.")
      .def_prop_ro("seconds", &Outcome::seconds, "Of all epochs, training alone.")
      .def("__repr__", shows({"seconds", "evaluation"}));
}

}  // namespace

void bind_train(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "train");
  bind_metrics(scope);
  bind_results(scope);
  bind_trainer(scope);
  scope.def(
      "evaluate",
      [](nb::handle model, const PythonLoader& loader, nb::handle loss, nb::handle metrics,
         nb::handle split, bool compile) {
        const nn::Module module = module_from(model);
        const train::EvaluateOptions options{.loss = as_comparison(loss, "the loss"),
                                             .metrics = as_metrics(metrics),
                                             .split = as_split(split),
                                             .compile = compile};
        return without_gil([&] { return train::evaluate(module, loader.loader, options); });
      },
      "model"_a, "loader"_a, "loss"_a = nb::none(), nb::kw_only(), "metrics"_a = nb::tuple(),
      "split"_a = nb::none(), "compile"_a = true,
      "Runs the model over the loader's first epoch in evaluation mode; see Trainer for the "
      "options. What is measured is summed on the device and read once.");
  scope.def(
      "accuracy",
      [](nb::handle model, nb::handle data, nb::handle labels) {
        const nn::Module module = module_from(model);
        const data::Dataset set =
            as_dataset(labels.is_none() ? nb::borrow(data) : nb::make_tuple(data, labels));
        return without_gil([&] { return train::accuracy(module, set); });
      },
      "model"_a, "data"_a, "labels"_a = nb::none(),
      "The part of a data set, or of images and labels, whose largest logit is their label's, in "
      "[0, 1].");
}

}  // namespace mica::python

// mica.train: the training loop of C++ around a model, a loss and callbacks that may be Python's.
#include <nanobind/stl/filesystem.h>

#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/train/evaluate.h"
#include "mica/train/trainer.h"
#include "python/src/callback.h"
#include "python/src/dataset.h"
#include "python/src/module_handle.h"

namespace mica::python {
namespace {

using Path = std::filesystem::path;
using train::Outcome;

/// A loss in Python, or cross entropy for None.
train::Loss as_loss(nb::handle loss) {
  if (loss.is_none())
    return [](const Tensor& output, const Tensor& target) { return cross_entropy(output, target); };
  // Borrowed: whoever calls holds it.
  return [loss](const Tensor& output, const Tensor& target) {
    const nb::gil_scoped_acquire acquire;
    const nb::object result = loss(output, target);
    if (!nb::isinstance<Tensor>(result))
      raise_type_error("train: the loss must return a tensor, got {}", class_name(result));
    return nb::cast<Tensor>(result);
  };
}

/// A trainer with the Python objects it uses, which the garbage collector sees through it.
struct PythonTrainer {
  std::optional<nn::Module> model;
  nb::object optimizer;
  nb::object loss;
  nb::object on_epoch;
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
    Py_VISIT(t->loss.ptr());
    Py_VISIT(t->on_epoch.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    if (!nb::inst_ready(self)) return 0;
    auto* t = nb::inst_ptr<PythonTrainer>(self);
    t->trainer.reset();
    t->model.reset();
    t->optimizer.reset();
    t->loss.reset();
    t->on_epoch.reset();
    return 0;
  }
};

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(PythonTrainer::traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(PythonTrainer::clear)},
                       {0, nullptr}};

void make_trainer(PythonTrainer* self, nb::handle model, nb::handle optimizer, int64_t epochs,
                  nb::handle loss, bool compile, int64_t steps_per_launch, double clip_norm,
                  int64_t patience, double until_accuracy, const Path& out, int64_t save_every,
                  bool progress, nb::handle on_epoch, const std::string& config,
                  const std::string& title, const std::string& command) {
  train::TrainerOptions options{.epochs = epochs,
                                .loss = as_loss(loss),
                                .compile = compile,
                                .steps_per_launch = steps_per_launch,
                                .clip_norm = clip_norm,
                                .patience = patience,
                                .until_accuracy = until_accuracy,
                                .out = out.string(),
                                .save_every = save_every,
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
  const nn::Module module = module_from(model);
  auto trainer = std::make_unique<train::Trainer>(module, nb::cast<optim::Optimizer&>(optimizer),
                                                  std::move(options));
  new (self) PythonTrainer{.model = module,
                           .optimizer = nb::borrow(optimizer),
                           .loss = nb::borrow(loss),
                           .on_epoch = nb::borrow(on_epoch),
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
      .def("__init__", make_trainer, "model"_a, "optimizer"_a, nb::kw_only(), "epochs"_a = 10,
           "loss"_a = nb::none(), "compile"_a = true, "steps_per_launch"_a = 0, "clip_norm"_a = 0.0,
           "patience"_a = 0, "until_accuracy"_a = 0.0, "out"_a = "", "save_every"_a = 0,
           "progress"_a = true, "on_epoch"_a = nb::none(), "config"_a = "{}",
           "title"_a = "A training run", "command"_a = "",
           "loss(output, target): cross entropy unless given. compile: the step is captured once "
           "and replayed. patience: epochs without a better one before it stops. out: directory "
           "for checkpoints, metrics and the report. on_epoch(result) is called after each epoch.")
      .def("fit", fit, "train"_a, "test"_a,
           "Trains and returns what came of it. Ctrl-C ends it after the step in progress, saves "
           "where `out` is given, and raises KeyboardInterrupt; `outcome` has what was done.")
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

void bind_results(nb::module_& m) {
  using train::EpochResult;
  using train::Evaluation;
  nb::class_<EpochResult>(m, "EpochResult", "What one epoch of a training run gave.")
      .def_ro("epoch", &EpochResult::epoch, "The first is 1.")
      .def_ro("steps", &EpochResult::steps, "Since the beginning.")
      .def_ro("train_loss", &EpochResult::train_loss, "The mean while it was learning.")
      .def_ro("test_loss", &EpochResult::test_loss, "The mean on the test data afterwards.")
      .def_ro("test_accuracy", &EpochResult::test_accuracy,
              "In [0, 1]; 0 where targets are no classes.")
      .def_ro("top5", &EpochResult::top5,
              "The part whose class is among the five largest outputs; 0 where targets are no "
              "classes.")
      .def_ro("lr", &EpochResult::lr, "Of the last step.")
      .def_ro("images_per_s", &EpochResult::images_per_s, "In training.")
      .def_ro("seconds", &EpochResult::seconds, "Of training alone.")
      .def_ro("best", &EpochResult::best,
              "Whether it is so far: by accuracy, or by loss where targets are no classes.")
      .def("__repr__", shows({"epoch", "train_loss", "test_loss", "test_accuracy"}));
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
      "How a model does on the examples of a loader. `classes` is 0 where targets are no "
      "class numbers, and then loss and examples are all there is.")
      .def_ro("examples", &Evaluation::examples, "How many there were.")
      .def_ro("loss", &Evaluation::loss, "The mean over the examples; NaN without any.")
      .def_ro("classes", &Evaluation::classes, "How many there are.")
      .def_ro("accuracy", &Evaluation::accuracy, "In [0, 1].")
      .def_ro("top5", &Evaluation::top5, "The part whose class is among the five largest outputs.")
      .def_prop_ro(
          "confusion",
          [](const Evaluation& e) { return tensor(e.confusion, {e.classes, e.classes}); },
          "int64 (classes, classes): of each truth and guess how many.")
      .def_ro("mistakes", &Evaluation::mistakes, "The most confident first.")
      .def("__repr__", shows({"examples", "loss", "accuracy"}));
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
  bind_results(scope);
  bind_trainer(scope);
  scope.def(
      "evaluate",
      [](nb::handle model, const PythonLoader& loader, nb::handle loss) {
        const nn::Module module = module_from(model);
        const train::Loss function = as_loss(loss);
        return without_gil([&] { return train::evaluate(module, loader.loader, function); });
      },
      "model"_a, "loader"_a, "loss"_a = nb::none(),
      "Runs the model over the loader's first epoch in evaluation mode.");
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

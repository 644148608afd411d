// Streams: what Python can iterate over.
#include "mica/data/stack.h"
#include "mica/data/worker_info.h"
#include "python/src/dataset.h"
#include "python/src/values.h"

namespace mica::python {
namespace {

using data::Batch;
using data::Example;
using data::Stream;
using data::StreamImpl;
using data::StreamPart;
using data::StreamReader;

thread_local PyObject* t_dataset = nullptr;      // of get_worker_info()
thread_local const Shared* t_started = nullptr;  // worker_init_fn, while a part is opened

bool is_own(nb::handle object) { return object.type().is(nb::type<Stream>()); }

/// Reads what iter() gave. Examples are Python's objects still.
class PythonReader : public StreamReader {
 public:
  /// Called with the GIL held.
  PythonReader(nb::handle dataset, const StreamPart& part) : dataset_(dataset), part_(part) {
    const bool in_worker = data::worker_info() != nullptr;
    data::asked_for_worker_info() = false;
    if (in_worker && t_started) start();
    const DatasetScope scope(dataset_.get());
    if (nb::hasattr(dataset_.get(), "set_epoch")) dataset_.get().attr("set_epoch")(part.epoch);
    iterator_.emplace(nb::iter(dataset_.get()));
    // Whether it splits itself is seen by its asking which worker it is for, at the latest when its
    // first example is made. An iterator is one for all.
    const bool whole = iterator_->get().is(dataset_.get());
    if (part.count == 1 || whole) return;
    first_ = read();
    if (data::asked_for_worker_info()) parts_ = part.count;
  }

  std::optional<Example> next() override {
    std::optional<Example> example = first_ ? std::exchange(first_, {}) : std::nullopt;
    return example ? example : read();
  }
  int64_t parts() const override { return parts_; }

 private:
  /// The data set of a worker is a copy, which worker_init_fn may change.
  void start() {
    const nb::object copy = nb::module_::import_("copy").attr("copy")(dataset_.get());
    dataset_ = Shared(copy);
    const DatasetScope scope(copy);
    t_started->get()(part_.index);
  }

  std::optional<Example> read() {
    if (ended_) return {};
    return example_of(read_++ * parts_ + part_.index, [&]() -> std::optional<Example> {
      const DatasetScope scope(dataset_.get());
      PyObject* item = PyIter_Next(iterator_->get().ptr());
      ended_ = !item;
      if (item) return opaque(nb::steal(item));
      if (PyErr_Occurred()) nb::raise_python_error();
      return {};
    });
  }

  Shared dataset_;
  StreamPart part_;
  std::optional<Shared> iterator_;
  std::optional<Example> first_;
  int64_t parts_ = 1;
  int64_t read_ = 0;
  bool ended_ = false;
};

class PythonStream : public StreamImpl {
 public:
  explicit PythonStream(nb::handle object) : object_(object) {}
  PyObject* object() const { return object_.get().ptr(); }

  std::unique_ptr<StreamReader> open(const StreamPart& part) const override {
    const nb::gil_scoped_acquire acquire;
    return std::make_unique<PythonReader>(object_.get(), part);
  }
  int64_t size() const override {
    const nb::gil_scoped_acquire acquire;
    const Py_ssize_t size = PyObject_Size(object());
    if (size < 0) PyErr_Clear();
    return size < 0 ? data::kUnknownSize : static_cast<int64_t>(size);
  }

 private:
  Shared object_;
};

/// Batches of tensors from examples of Python.
class PythonBatches : public StreamImpl {
 public:
  PythonBatches(Stream base, const StreamBatches& how)
      : base_(std::move(base)),
        collate_(how.collate_fn),
        start_(how.worker_init_fn),
        single_(how.single) {
    class_names = base_.class_names();
  }
  const Stream& base() const { return base_; }

  std::unique_ptr<StreamReader> open(const StreamPart& part) const override {
    const struct Started {
      const Shared* before = std::exchange(t_started, nullptr);
      ~Started() { t_started = before; }
    } started;
    if (!start_.get().is_none()) t_started = &start_;
    return base_.open(part);
  }
  int64_t size() const override { return base_.size(); }

  Batch collate(std::vector<Example> examples, std::span<const int64_t> numbers) const override {
    if (!collate_.get().is_none()) {
      const nb::gil_scoped_acquire acquire;
      nb::list all;
      for (const Example& e : examples) all.append(values_to_python(e));
      const nb::object given = single_ ? nb::object(all[0]) : nb::object(all);
      return example_from(nb::object(collate_.get()(given)), ValuesPath("batch"));
    }
    data::Stack stack(examples.size());
    for (size_t i = 0; i < examples.size(); ++i) {
      const Example example = example_of(numbers[i], [&] {
        return example_from(values_to_python(examples[i]), ValuesPath("example"));
      });
      if (single_) return example;
      stack.add(example, numbers[i]);
    }
    return stack.batch();
  }

 private:
  Stream base_;
  Shared collate_;
  Shared start_;
  bool single_;
};

Stream mapped(nb::handle self, nb::handle function) {
  return as_stream(self).map([f = Shared(function)](const Example& e) {
    const nb::gil_scoped_acquire acquire;
    const nb::object example = values_to_python(e);
    return opaque(PyTuple_CheckExact(example.ptr()) ? nb::object(f.get()(*example))
                                                    : nb::object(f.get()(example)));
  });
}

/// A walk over a stream in Python.
struct StreamIterator {
  std::unique_ptr<StreamReader> reader;
};

/// What a thread that prepares batches is told.
struct PythonWorkerInfo {
  data::WorkerInfo info;
  nb::object dataset;
};

}  // namespace

DatasetScope::DatasetScope(nb::handle dataset) : before_(t_dataset) { t_dataset = dataset.ptr(); }
DatasetScope::~DatasetScope() { t_dataset = before_; }

bool is_stream(nb::handle object) {
  if (nb::isinstance<Stream>(object)) return true;
  if (nb::isinstance<data::Dataset>(object) || !nb::hasattr(object, "__iter__")) return false;
  return !nb::hasattr(object, "__len__") || !nb::hasattr(object, "__getitem__");
}

Stream as_stream(nb::handle object) {
  if (is_own(object)) return nb::cast<Stream>(object);
  if (!is_stream(object))
    raise_type_error("data: expected something to iterate over, got {}", class_name(object));
  return Stream(std::make_shared<PythonStream>(object));
}

Stream batches_of_stream(const Stream& stream, const StreamBatches& how) {
  return Stream(std::make_shared<PythonBatches>(stream, how));
}

PyObject* own_object(const Stream& stream) {
  const Stream* at = &stream;
  if (const auto* batches = dynamic_cast<const PythonBatches*>(at->impl().get())) {
    if (at->impl().use_count() != 1) return nullptr;
    at = &batches->base();
  }
  const auto* python = dynamic_cast<const PythonStream*>(at->impl().get());
  return python && at->impl().use_count() == 1 ? python->object() : nullptr;
}

void bind_streams(nb::module_& m) {
  nb::class_<StreamIterator>(m, "StreamIterator", "Goes through the examples of a stream.")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", [](StreamIterator& self) {
        const std::optional<Example> example = without_gil([&] { return self.reader->next(); });
        if (!example) throw nb::stop_iteration();
        return values_to_python(*example);
      });
  nb::class_<Stream> stream(
      m, "IterableDataset",
      R"(Examples that come one after the other. One's own class derives from it, or from nothing, and
defines __iter__, which begins a walk, and set_epoch(epoch) where walks differ.

With workers a data set that asks get_worker_info() gives each of them its part, as in PyTorch; one
that does not ask is read by one of them, and no example comes twice.)");
  stream.def("__init__", [](Stream* self) { new (self) Stream(std::shared_ptr<StreamImpl>()); });
  stream.def("__iter__", [](nb::handle self) {
    if (!is_own(self))
      raise_type_error("data.IterableDataset: {} must define __iter__(self)", class_name(self));
    const auto& own = nb::cast<const Stream&>(self);
    return StreamIterator{without_gil([&] { return own.open(); })};
  });
  stream.def("map", mapped, "function"_a,
             "Each example as function(x, y) makes it; of what is no tuple as function(example) "
             "does.");
  stream.def(
      "shuffle",
      [](nb::handle self, int64_t buffer_size, uint64_t seed) {
        return as_stream(self).shuffle(buffer_size, seed);
      },
      "buffer_size"_a, "seed"_a = 0,
      "In another order in each epoch: of the next buffer_size examples one drawn at random comes "
      "next.");
  m.def(
      "ChainDataset",
      [](nb::handle datasets) {
        std::vector<Stream> all;
        for (nb::handle each : nb::iter(datasets)) all.push_back(as_stream(each));
        return data::chain(std::move(all));
      },
      "datasets"_a, "The examples of several iterable data sets, one after the other.");
  nb::class_<PythonWorkerInfo>(m, "WorkerInfo", "What get_worker_info() tells a worker of itself.")
      .def_prop_ro(
          "id", [](const PythonWorkerInfo& self) { return self.info.index; }, "Its number, from 0.")
      .def_prop_ro(
          "num_workers", [](const PythonWorkerInfo& self) { return self.info.count; },
          "How many there are.")
      .def_prop_ro(
          "seed", [](const PythonWorkerInfo& self) { return self.info.seed; },
          "For random numbers of its own, another one in each epoch.")
      .def_ro("dataset", &PythonWorkerInfo::dataset, "What it reads.")
      .def("__repr__", shows({"id", "num_workers", "seed"}));
  m.def(
      "get_worker_info",
      []() -> nb::object {
        const data::WorkerInfo* info = data::worker_info();
        if (!info) return nb::none();
        return nb::cast(PythonWorkerInfo{*info, t_dataset ? nb::borrow(t_dataset) : nb::none()});
      },
      "In a thread that prepares batches, which of them it is; None elsewhere.");
}

}  // namespace mica::python

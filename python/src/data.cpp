// mica.data: batches of data sets.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <nanobind/stl/pair.h>

#include "mica/data/loader.h"
#include "mica/data/sampler.h"
#include "mica/data/worker_info.h"
#include "mica/ops/random/random.h"
#include "python/src/callback.h"
#include "python/src/dataset.h"
#include "python/src/values.h"

namespace mica::python {
namespace {

/// Ends walks without waiting for the batches that their threads are at, which may take long and
/// may need the GIL.
class Ending {
 public:
  /// Called with the GIL held.
  static void end(std::optional<data::Epoch>& epoch) {
    const nb::gil_scoped_release release;
    if (!epoch) return;
    if (!epoch->stop()) {
      try {
        wait_elsewhere(epoch);
      } catch (const std::system_error&) {  // no thread to be had: it is waited for here
      }
    }
    epoch.reset();
  }
  /// Until all have ended, but not for ever: a thread that calls Python after it has gone stops
  /// there.
  static void wait_for_all() {
    const nb::gil_scoped_release release;
    Ending& self = instance();
    std::unique_lock lock(self.mutex_);
    self.changed_.wait_for(lock, std::chrono::seconds(5), [&] { return self.count_ == 0; });
  }

 private:
  static Ending& instance() {
    static auto* const one = new Ending;
    return *one;
  }
  static void wait_elsewhere(std::optional<data::Epoch>& epoch) {
    Ending& self = instance();
    const std::lock_guard lock(self.mutex_);
    auto held = std::make_shared<std::optional<data::Epoch>>(std::exchange(epoch, std::nullopt));
    try {
      std::thread([held, &self] {
        held->reset();
        const std::lock_guard done(self.mutex_);
        --self.count_;
        self.changed_.notify_all();
      }).detach();
      ++self.count_;
    } catch (...) {
      epoch = std::move(*held);
      throw;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

/// One walk over the batches of an epoch.
class BatchIterator {
 public:
  explicit BatchIterator(data::Epoch epoch) : id_(epoch.id()), epoch_(std::move(epoch)) {
    walks().insert(this);
  }
  ~BatchIterator() {
    walks().erase(this);
    Ending::end(epoch_);
  }
  BatchIterator(const BatchIterator&) = delete;
  BatchIterator& operator=(const BatchIterator&) = delete;

  std::optional<Values> next() {
    check(!data::Epoch::is_making(id_),
          "data: the data set asks its own iterator for the next batch while it makes one");
    const std::lock_guard lock(mutex_);
    if (!epoch_) return {};
    return epoch_->next();
  }

  /// Before Python goes: no thread may call it afterwards.
  static void close_all() {
    std::vector<std::optional<data::Epoch>> epochs;
    for (BatchIterator* walk : walks()) {
      const std::unique_lock lock(walk->mutex_, std::try_to_lock);
      if (lock) epochs.push_back(std::exchange(walk->epoch_, {}));
    }
    for (auto& epoch : epochs) Ending::end(epoch);
    Ending::wait_for_all();
  }

 private:
  static std::set<BatchIterator*>& walks() {  // guarded by the GIL
    static std::set<BatchIterator*> all;
    return all;
  }

  std::mutex mutex_;
  const void* id_;
  std::optional<data::Epoch> epoch_;
};

nb::object start_walk(data::Epoch epoch) {
  return nb::cast(new BatchIterator(std::move(epoch)), nb::rv_policy::take_ownership);
}

nb::object walk(const data::Loader& loader, int64_t epoch, int64_t first_batch = 0) {
  return start_walk(without_gil([&] { return loader.epoch(epoch, first_batch); }));
}

/// False for the data set's order, True for a seed from the generator, or the seed.
std::optional<uint64_t> parse_shuffle(nb::handle value) {
  if (value.is_none() || value.is(nb::handle(Py_False))) return {};
  if (value.is(nb::handle(Py_True)))
    return static_cast<uint64_t>(randint(0, int64_t{1} << 32, {}).item());
  return nb::cast<uint64_t>(value);
}

using data::Batch;
using data::Dataset;
using data::Example;

/// Batches that a Python function makes of a list of examples, as they are in Python.
class Collated : public data::DatasetImpl {
 public:
  Collated(Dataset base, nb::handle source, nb::handle collate)
      : base_(std::move(base)), source_(source), collate_(collate) {
    class_names = base_.class_names();
  }
  int64_t size() const override { return base_.size(); }
  Example get(int64_t i) const override { return base_.get(i); }
  Batch gather(std::span<const int64_t> indices) const override {
    const nb::gil_scoped_acquire acquire;
    const bool own = !nb::isinstance<Dataset>(source_.get());
    const bool indexed = own && nb::hasattr(source_.get(), "__getitem__") &&
                         !PyTuple_Check(source_.get().ptr()) &&
                         !PyList_Check(source_.get().ptr()) && !PyDict_Check(source_.get().ptr());
    const DatasetScope scope(source_.get());
    nb::list examples;
    for (const int64_t i : indices)
      examples.append(indexed ? nb::object(source_.get()[nb::int_(i)])
                              : values_to_python(base_.get(i)));
    return example_from(nb::object(collate_.get()(examples)), ValuesPath("batch"));
  }

 private:
  Dataset base_;
  Shared source_;
  Shared collate_;
};

/// Each example on its own, without an axis for the batch.
class Single : public data::DatasetImpl {
 public:
  explicit Single(Dataset base) : base_(std::move(base)) { class_names = base_.class_names(); }
  int64_t size() const override { return base_.size(); }
  Example get(int64_t i) const override { return base_.get(i); }
  Batch gather(std::span<const int64_t> indices) const override { return get(indices[0]); }

 private:
  Dataset base_;
};

/// Calls a function with the number of the thread before the first batch that it makes.
class Starting : public data::DatasetImpl {
 public:
  Starting(Dataset base, nb::handle start) : base_(std::move(base)), start_(start) {
    class_names = base_.class_names();
  }
  int64_t size() const override { return base_.size(); }
  Example get(int64_t i) const override { return base_.get(i); }
  Batch gather(std::span<const int64_t> indices) const override {
    static std::atomic<uint64_t> sets = 0;
    static thread_local uint64_t started = 0;
    if (uint64_t zero = 0; number_ == 0) number_.compare_exchange_strong(zero, ++sets);
    if (started != number_) {
      started = number_;
      const data::WorkerInfo* worker = data::worker_info();
      const nb::gil_scoped_acquire acquire;
      start_.get()(worker ? worker->index : 0);
    }
    return base_.impl()->gather(indices);
  }

 private:
  Dataset base_;
  Shared start_;
  mutable std::atomic<uint64_t> number_ = 0;
};

/// What an object with __len__ and __iter__ says of an epoch.
template <class T>
std::vector<T> listed(nb::handle sampler, int64_t epoch) {
  const nb::gil_scoped_acquire acquire;
  if (nb::hasattr(sampler, "set_epoch")) sampler.attr("set_epoch")(epoch);
  std::vector<T> all;
  for (nb::handle item : nb::iter(sampler)) all.push_back(nb::cast<T>(item));
  return all;
}

/// How many an object says it has; kUnknownSize where it has no len().
int64_t size_or_unknown(nb::handle object) {
  const Py_ssize_t size = PyObject_Size(object.ptr());
  if (size >= 0) return static_cast<int64_t>(size);
  PyErr_Clear();
  return data::kUnknownSize;
}

data::Sampler as_sampler(nb::handle object) {
  return {size_or_unknown(object),
          [from = Shared(object)](int64_t epoch) { return listed<int64_t>(from.get(), epoch); }};
}

data::BatchSampler as_batch_sampler(nb::handle object) {
  int64_t largest = 0;
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    for (nb::handle batch : nb::iter(object))
      largest = std::max(largest, static_cast<int64_t>(nb::len(batch)));
  } else if (const nb::object size = nb::getattr(object, "batch_size", nb::none());
             PyLong_Check(size.ptr())) {
    largest = nb::cast<int64_t>(size);
  }
  return {size_or_unknown(object), largest, [from = Shared(object)](int64_t epoch) {
            return listed<std::vector<int64_t>>(from.get(), epoch);
          }};
}

/// A number, or something with initial_seed().
std::optional<uint64_t> seed_from(nb::handle generator) {
  if (generator.is_none()) return {};
  if (PyLong_Check(generator.ptr())) return nb::cast<uint64_t>(generator);
  if (!nb::hasattr(generator, "initial_seed"))
    raise_type_error("DataLoader: generator must be a seed, or have initial_seed(), got {}",
                     class_name(generator));
  return nb::cast<uint64_t>(generator.attr("initial_seed")());
}

/// A data set may hold its loader: the collector has to see that the loader holds the data set.
int traverse_loader(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const data::Loader& loader = nb::inst_ptr<PythonLoader>(self)->loader;
  if (loader.is_alone())
    Py_VISIT(loader.is_stream() ? own_object(loader.stream()) : own_object(loader.dataset()));
  return 0;
}

PyType_Slot loader_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_loader)},
                              {0, nullptr}};

void bind_loader(nb::module_& m) {
  nb::class_<PythonLoader> loader(m, "DataLoader", nb::type_slots(loader_slots),
                                  "Batches of a data set on a device: (x, y), or structured as its "
                                  "examples are. Each walk over "
                                  "it is the next epoch.");
  loader.def(
      "__init__",
      [](PythonLoader* self, nb::handle dataset, std::optional<int64_t> batch_size,
         nb::handle shuffle, nb::handle sampler, nb::handle batch_sampler, int workers,
         nb::handle collate_fn, bool /*pin_memory*/, bool drop_last, double /*timeout*/,
         nb::handle worker_init_fn, nb::handle /*multiprocessing_context*/, nb::handle generator,
         std::optional<int64_t> prefetch_factor, bool /*persistent_workers*/, nb::handle device,
         std::vector<data::Transform> augment, bool resident, bool masks,
         std::optional<std::pair<int64_t, int64_t>> shard) {
        check(sampler.is_none() || (batch_sampler.is_none() && !nb::cast<bool>(nb::bool_(shuffle))),
              "DataLoader: a sampler excludes shuffle and batch_sampler");
        check(batch_sampler.is_none() || (batch_size == 1 && !drop_last),
              "DataLoader: a batch_sampler excludes batch_size and drop_last");
        data::LoaderOptions options{.batch = batch_size.value_or(1),
                                    .shuffle = parse_shuffle(shuffle),
                                    .drop_last = drop_last,
                                    .workers = workers,
                                    .prefetch = prefetch_factor.value_or(2),
                                    .device = parse_options(nb::none(), device).device,
                                    .augment = std::move(augment),
                                    .masks = masks,
                                    .resident = resident};
        if (shard) options.shard = {shard->first, shard->second};
        const std::optional<uint64_t> seed = seed_from(generator);
        if (seed && shuffle.is(nb::handle(Py_True))) options.shuffle = seed;
        const bool starts = !worker_init_fn.is_none() && workers > 0;
        if (is_stream(dataset)) {
          check(options.shuffle == std::nullopt && sampler.is_none() && batch_sampler.is_none(),
                "DataLoader: an iterable data set has its own order, without shuffle and samplers; "
                "IterableDataset.shuffle(buffer_size) changes it");
          const data::Stream stream = batches_of_stream(
              as_stream(dataset), {.collate_fn = collate_fn,
                                   .single = !batch_size,
                                   .worker_init_fn = starts ? worker_init_fn : nb::none()});
          new (self) PythonLoader{without_gil([&] { return data::Loader(stream, options); })};
          return;
        }
        Dataset set = as_dataset(dataset);
        if (!collate_fn.is_none())
          set = Dataset(std::make_shared<Collated>(set, dataset, collate_fn));
        if (!batch_size) set = Dataset(std::make_shared<Single>(set));
        if (starts) set = Dataset(std::make_shared<Starting>(set, worker_init_fn));
        std::optional<Shared> from;
        if (!sampler.is_none()) {
          options.sampler = as_sampler(sampler);
          from.emplace(sampler);
        } else if (!batch_sampler.is_none()) {
          options.batch_sampler = as_batch_sampler(batch_sampler);
          from.emplace(batch_sampler);
        }
        new (self) PythonLoader{without_gil([&] { return data::Loader(set, options); }), 0, from};
      },
      "dataset"_a, "batch_size"_a.none() = 1, "shuffle"_a.none() = false, "sampler"_a = nb::none(),
      "batch_sampler"_a = nb::none(), "num_workers"_a = 0, "collate_fn"_a = nb::none(),
      "pin_memory"_a = false, "drop_last"_a = false, "timeout"_a = 0.0,
      "worker_init_fn"_a = nb::none(), "multiprocessing_context"_a = nb::none(),
      "generator"_a = nb::none(), nb::kw_only(), "prefetch_factor"_a = nb::none(),
      "persistent_workers"_a = false, "device"_a = nb::none(),
      "augment"_a = std::vector<data::Transform>(), "resident"_a = false, "masks"_a = false,
      "shard"_a = nb::none(),
      "shard: (rank, ranks) gives this process's part of every batch; all parts together are the "
      "batch of one process. "
      "dataset: of mica, a pair of arrays, any object with __len__ and __getitem__, or one to "
      "iterate over (see IterableDataset). batch_size: "
      "None gives examples as they are. shuffle: True draws a seed, or takes the generator's; a "
      "number is the seed. sampler, batch_sampler: objects that give numbers of examples, or lists "
      "of them, anew for each epoch. num_workers: threads that prepare batches ahead, each of "
      "which "
      "calls worker_init_fn(number) first. collate_fn: makes a batch of a list of examples. "
      "drop_last: an epoch ends before a batch that would be smaller. resident: the whole data set "
      "lies on the device. masks: the second tensor of a batch is the classes of pixels (n, H, W), "
      "which move with the images. pin_memory, timeout, multiprocessing_context and "
      "persistent_workers are "
      "taken without effect.");
  loader.def("__len__", [](const PythonLoader& self) {
    if (self.loader.size() == data::kUnknownSize)
      raise_type_error("DataLoader: what it walks over does not say how many examples there are");
    return self.loader.size();
  });
  loader.def("__iter__", [](PythonLoader& self) {
    int64_t epoch = self.next_epoch;
    // sampler.set_epoch(5) may have been called: a run is gone on with.
    if (self.sampler)
      if (const nb::object told = nb::getattr(self.sampler->get(), "epoch", nb::none());
          PyLong_Check(told.ptr()))
        epoch = std::max(epoch, nb::cast<int64_t>(told));
    self.next_epoch = epoch + 1;
    return walk(self.loader, epoch);
  });
  loader.def(
      "epoch",
      [](const PythonLoader& self, int64_t epoch, int64_t first_batch) {
        return walk(self.loader, epoch, first_batch);
      },
      "epoch"_a, "first_batch"_a = 0, "One walk over the batches of an epoch, the same each time.");
  loader.def_prop_ro(
      "examples",
      [](const PythonLoader& self) {
        const int64_t n = self.loader.examples();
        return n == data::kUnknownSize ? std::optional<int64_t>() : n;
      },
      "How many there are in an epoch; None where only a walk tells.");
  loader.def_prop_ro(
      "batch_size", [](const PythonLoader& self) { return self.loader.options().batch; },
      "Examples in a batch; the last may have fewer.");
  loader.def_prop_ro(
      "dataset",
      [](const PythonLoader& self) -> nb::object {
        if (self.loader.is_stream()) return nb::cast(self.loader.stream());
        return nb::cast(self.loader.dataset());
      },
      "What it takes the examples from, as a Dataset or an IterableDataset.");
  loader.def_prop_ro(
      "drop_last", [](const PythonLoader& self) { return self.loader.options().drop_last; },
      "Whether a last batch that would have fewer examples is left out.");
  loader.def("__repr__", shows({"examples", "batch_size", "drop_last"}));

  nb::class_<data::Feed>(m, "Feed",
                         "The batches of a resident loader, for a compiled function without "
                         "arguments that takes them itself.")
      .def(
          "__init__",
          [](data::Feed* self, const PythonLoader& of) { new (self) data::Feed(of.loader); },
          "loader"_a, ReleaseGil())
      .def("start", &data::Feed::start, "epoch"_a, "first_batch"_a = 0, ReleaseGil(),
           "What comes next is this batch of this epoch.")
      .def_prop_ro("batches", &data::Feed::batches, "Of the epoch that was started.")
      .def("size_of", &data::Feed::size_of, "batch"_a, "Examples in a batch of that epoch.")
      .def(
          "next",
          [](const data::Feed& self, int64_t n) {
            return values_to_python(without_gil([&] { return self.next(n); }));
          },
          "n"_a, "The next n examples (x (n, …), y (n, …)), at most a batch.");
}

/// What Python iterates over; every walk starts anew.
struct BatchSource {
  data::Loader loader;
  int64_t epoch;
};

}  // namespace

void bind_data(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "data");
  nb::class_<BatchIterator>(scope, "BatchIterator", "Goes through the batches (x, y) of one epoch.")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", [](BatchIterator& self) {
        auto batch = without_gil([&] { return self.next(); });
        if (PyErr_CheckSignals() < 0) nb::raise_python_error();
        if (!batch) throw nb::stop_iteration();
        return values_to_python(*batch);
      });
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&BatchIterator::close_all));
  bind_transforms(scope);
  bind_datasets(scope);
  bind_streams(scope);
  bind_loader(scope);

  nb::class_<BatchSource>(scope, "Batches", "Pairs (x, y); see batches().")
      .def("__len__", [](const BatchSource& self) { return self.loader.size(); })
      .def("__iter__", [](const BatchSource& self) { return walk(self.loader, self.epoch); });
  scope.def(
      "batches",
      [](const Tensor& images, const Tensor& labels, int64_t batch_size,
         std::optional<uint64_t> shuffle, int64_t epoch, nb::handle device) {
        const data::LoaderOptions options{.batch = batch_size,
                                          .shuffle = shuffle,
                                          .device = parse_options(nb::none(), device).device};
        return BatchSource{
            without_gil([&] { return data::Loader(data::TensorDataset{images, labels}, options); }),
            epoch};
      },
      "images"_a, "labels"_a, "batch_size"_a = 64, nb::kw_only(), "shuffle"_a = nb::none(),
      "epoch"_a = 0, "device"_a = nb::none(),
      "Walks once over the images. `shuffle` is the seed of the order, `epoch` which order of that "
      "seed; without a seed "
      "the order is the dataset's own. The last batch may be smaller.");
}

}  // namespace mica::python

// mica.data: batches of data sets.
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "mica/data/loader.h"
#include "mica/ops/random/random.h"
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
    auto held = std::make_shared<std::optional<data::Epoch>>(std::move(epoch));
    epoch.reset();
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
    const bool was_given = std::exchange(given_, false);
    auto at = epoch_->begin();
    if (was_given && at != epoch_->end()) ++at;
    if (at == epoch_->end()) return {};
    Values batch = *at;
    given_ = true;
    return batch;
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
  bool given_ = false;  ///< the batch that the epoch is at
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

/// A data set may hold its loader: the collector has to see that the loader holds the data set.
int traverse_loader(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const data::Loader& loader = nb::inst_ptr<PythonLoader>(self)->loader;
  if (loader.is_alone()) Py_VISIT(own_object(loader.dataset()));
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
      [](PythonLoader* self, nb::handle dataset, int64_t batch_size, nb::handle shuffle,
         int workers, bool drop_last, int64_t prefetch, nb::handle device,
         std::vector<data::Transform> augment, bool resident) {
        const data::LoaderOptions options{.batch = batch_size,
                                          .shuffle = parse_shuffle(shuffle),
                                          .drop_last = drop_last,
                                          .workers = workers,
                                          .prefetch = prefetch,
                                          .device = parse_options(nb::none(), device).device,
                                          .augment = std::move(augment),
                                          .resident = resident};
        const data::Dataset set = as_dataset(dataset);
        new (self) PythonLoader{without_gil([&] { return data::Loader(set, options); })};
      },
      "dataset"_a, "batch_size"_a = 64, "shuffle"_a = false, nb::kw_only(), "num_workers"_a = 0,
      "drop_last"_a = false, "prefetch"_a = 2, "device"_a = nb::none(),
      "augment"_a = std::vector<data::Transform>(), "resident"_a = false,
      "dataset: of mica, a pair of arrays, or any object with __len__ and __getitem__. shuffle: "
      "True draws a seed, a number is the seed. num_workers: threads that prepare batches ahead. "
      "drop_last: an epoch ends before a batch that would be smaller. "
      "resident: the whole data set lies on the device.");
  loader.def("__len__", [](const PythonLoader& self) { return self.loader.size(); });
  loader.def("__iter__", [](PythonLoader& self) { return walk(self.loader, self.next_epoch++); });
  loader.def(
      "epoch",
      [](const PythonLoader& self, int64_t epoch, int64_t first_batch) {
        return walk(self.loader, epoch, first_batch);
      },
      "epoch"_a, "first_batch"_a = 0, "One walk over the batches of an epoch, the same each time.");
  loader.def_prop_ro(
      "examples", [](const PythonLoader& self) { return self.loader.examples(); },
      "How many there are in an epoch.");
  loader.def_prop_ro(
      "batch_size", [](const PythonLoader& self) { return self.loader.options().batch; },
      "Examples in a batch; the last may have fewer.");
  loader.def_prop_ro(
      "dataset", [](const PythonLoader& self) { return self.loader.dataset(); },
      "What it takes the examples from, as a Dataset.");
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

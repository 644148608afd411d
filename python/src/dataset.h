#pragma once

#include <optional>

#include "mica/data/loader.h"
#include "python/src/bindings.h"
#include "python/src/callback.h"

namespace mica::python {

/// A data set made in C++, a pair of arrays (x, y), or any object with __len__ and __getitem__.
data::Dataset as_dataset(nb::handle object);

/// The Python object that a data set is made of, where nothing but `set` holds it; null otherwise.
/// What the garbage collector may count as its owner's.
PyObject* own_object(const data::Dataset& set);

/// Whether an object is a stream: an IterableDataset, or what can be iterated over and has not both
/// __len__ and __getitem__.
bool is_stream(nb::handle object);
/// Its examples are Python's objects, which `batches_of_stream` makes tensors of.
data::Stream as_stream(nb::handle object);
struct StreamBatches {
  nb::handle collate_fn;      ///< or None
  bool single = false;        ///< each example on its own, without an axis for the batch
  nb::handle worker_init_fn;  ///< or None
};
data::Stream batches_of_stream(const data::Stream& stream, const StreamBatches& how);
/// As for a data set.
PyObject* own_object(const data::Stream& stream);

/// As long as it lives, get_worker_info().dataset of this thread.
class DatasetScope {
 public:
  explicit DatasetScope(nb::handle dataset);
  ~DatasetScope();
  DatasetScope(const DatasetScope&) = delete;
  DatasetScope& operator=(const DatasetScope&) = delete;

 private:
  PyObject* before_;
};

/// Calls f with the GIL; what it raises says of which example it was.
template <class F>
auto example_of(int64_t i, F&& f) {
  const nb::gil_scoped_acquire acquire;
  try {
    return f();
  } catch (nb::python_error& e) {
    e.value().attr("add_note")(fmt::format("data: in example {}", i));
    throw;
  } catch (const nb::builtin_exception& e) {
    throw nb::builtin_exception(e.type(), fmt::format("{}, in example {}", e.what(), i).c_str());
  }
}

/// A loader with the number of the epoch that the next walk over it is.
struct PythonLoader {
  data::Loader loader;
  int64_t next_epoch = 0;
  std::optional<Shared> sampler = {};  ///< of either kind, which may have been told an epoch
};

void bind_streams(nb::module_& m);

}  // namespace mica::python

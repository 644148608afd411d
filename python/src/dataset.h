#pragma once

#include <functional>

#include "mica/data/loader.h"
#include "python/src/bindings.h"

namespace mica::python {

/// A data set made in C++, a pair of arrays (x, y), or any object with __len__ and __getitem__.
data::Dataset as_dataset(nb::handle object);

/// The Python object that a data set is made of, where nothing but `set` holds it; null otherwise.
/// What the garbage collector may count as its owner's.
PyObject* own_object(const data::Dataset& set);

/// A loader with the number of the epoch that the next walk over it is.
struct PythonLoader {
  data::Loader loader;
  int64_t next_epoch = 0;
  /// Of an epoch, where a sampler says what is in it; `loader` is that of the last walk.
  std::function<data::Loader(int64_t epoch)> make = {};
};

}  // namespace mica::python

#pragma once

#include "mica/data/loader.h"
#include "python/src/bindings.h"

namespace mica::python {

/// A data set made in C++, a pair of arrays (x, y), or any object with __len__ and __getitem__.
data::Dataset as_dataset(nb::handle object);

/// Takes the GIL for a call of Python that a loader's thread may make.
class LoadingCall {
 public:
  LoadingCall() { ++depth(); }
  ~LoadingCall() { --depth(); }
  LoadingCall(const LoadingCall&) = delete;
  LoadingCall& operator=(const LoadingCall&) = delete;

  /// Whether this thread is in such a call: it must not wait for a loader's threads then, one of
  /// which it may be. The garbage collector runs in any thread.
  static bool inside() { return depth() > 0; }

 private:
  static int& depth() {
    thread_local int calls = 0;
    return calls;
  }
  const nb::gil_scoped_acquire acquire_;
};

/// A loader with the number of the epoch that the next walk over it is.
struct PythonLoader {
  data::Loader loader;
  int64_t next_epoch = 0;
};

}  // namespace mica::python

#pragma once

// Python objects inside C++ functions that any thread may call, copy and drop.
#include <memory>

#include "python/src/bindings.h"

namespace mica::python {

/// Owns a Python object; copies share it, and the last one gives it back under the GIL.
class Shared {
 public:
  explicit Shared(nb::handle object) : object_(object.inc_ref().ptr(), release) {}
  nb::handle get() const { return object_.get(); }

 private:
  static void release(PyObject* object) noexcept {
    if (!nb::is_alive()) return;
    const nb::gil_scoped_acquire acquire;
    Py_DECREF(object);
  }
  std::shared_ptr<PyObject> object_;
};

/// What a function returned as tensors: one, or a tuple or list of them; `single` says which.
Tensors result_tensors(nb::handle value, const char* what, bool& single);
/// The other way round.
nb::object result_object(const Tensors& tensors, bool single);

}  // namespace mica::python

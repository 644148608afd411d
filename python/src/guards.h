#pragma once

// What a compiled function read of Python, and whether it still holds.
#include <string>
#include <vector>

#include "mica/graph/capture.h"
#include "mica/nn/module.h"
#include "python/src/bindings.h"

namespace mica::python {

/// Comparisons of a few nanoseconds each, made from the list of python/mica/_guards.py. All of it
/// is used under the GIL.
class PythonGuards {
 public:
  PythonGuards() = default;
  explicit PythonGuards(const nb::list& list);

  /// What no longer holds, in words; null while everything does.
  const char* broken() const;
  /// The objects that are compared, for the garbage collector.
  nb::object& objects() { return list_; }

 private:
  /// Where a name leads: an item of a dict, an attribute of an object, the elements of a sequence.
  struct Place {
    enum class Kind : uint8_t { item, attribute, sequence, length } kind;
    bool type_alone;  ///< the value is read anew at each run
    PyObject* holder;
    PyObject* key;
    PyObject* value;
    const char* text;
  };
  struct Parts {
    const nn::ModuleImpl* module;
    std::vector<std::string> skipped;  ///< buffers that the function binds anew
    std::vector<const void*> parts;
  };

  static bool holds(const Place& place);

  nb::object list_;  ///< owns what the places point to
  std::vector<Place> places_;
  std::vector<Parts> modules_;
};

}  // namespace mica::python

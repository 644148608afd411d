// Which line of a Python program calls: captured graphs keep it.
#include "mica/core/scope.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

/// "train.py:31", the innermost line outside of this package; empty where no Python runs.
std::string caller_name() try {
  const nb::gil_scoped_acquire acquire;
  static const std::string package = [] {
    const auto file = nb::cast<std::string>(nb::module_::import_("mica").attr("__file__"));
    return file.substr(0, file.find_last_of('/') + 1);
  }();
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && !frame.is_none()) {
    const auto file = nb::cast<std::string>(frame.attr("f_code").attr("co_filename"));
    if (!file.starts_with(package))
      return fmt::format("{}:{}", file.substr(file.find_last_of('/') + 1),
                         PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject*>(frame.ptr())));
    frame = frame.attr("f_back");
  }
  return {};
} catch (const nb::python_error&) {
  return {};  // a frame that does not say where it is
}

}  // namespace

void bind_caller() { set_caller_name(caller_name); }

}  // namespace mica::python

#include <array>
#include <filesystem>
#include <new>
#include <thread>

#include "mica/core/error.h"
#include "mica/core/interrupt.h"
#include "mica/core/text.h"
#include "mica/ops/linalg/error.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

/// One line of the table from C++ exceptions to Python's.
struct Row {
  const char* name;
  PyObject* builtin;  ///< the Python exception a user expects; the new one is also a mica.Error
  bool (*matches)(const Error&);
  const char* doc;
};

template <class E>
bool is(const Error& e) {
  return dynamic_cast<const E*>(&e) != nullptr;
}

constexpr size_t kRows = 8;
std::array<Row, kRows> table() {
  return {{
      {"ShapeError", PyExc_ValueError, is<ShapeError>, "A shape or axis does not fit."},
      {"DTypeError", PyExc_TypeError, is<DTypeError>, "A dtype does not fit."},
      {"DeviceError", PyExc_RuntimeError, is<DeviceError>, "A device is missing or failed."},
      {"OutOfMemory", PyExc_MemoryError, is<OutOfMemory>, "A device has no memory left."},
      {"IoError", PyExc_OSError, is<IoError>, "A file cannot be read or written."},
      {"IndexError", PyExc_IndexError, is<IndexError>, "An index is out of range."},
      {"LinAlgError", PyExc_RuntimeError, is<LinAlgError>,
       "A matrix has no such factors: it is singular, not positive definite or not finite."},
      {"Unsupported", PyExc_NotImplementedError, is<Unsupported>,
       "A call that can never work as written."},
  }};
}

// The types live as long as the module does, and so does the translator.
PyObject* error_type = nullptr;
std::array<PyObject*, kRows> row_types{};

PyObject* type_named(std::string_view name) {
  static const auto rows = table();
  for (size_t i = 0; i < kRows; ++i)
    if (name == rows[i].name) return row_types[i];
  return error_type;
}

/// A message of C++'s with Python's names for what it speaks of.
std::string in_python(std::string message) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"under NoGrad", "under no_grad()"},
      {"copy_into: writes", "writes in place"},
      {"a cotangent", "a gradient"}};
  for (const auto& [word, other] : kWords)
    for (size_t at = 0; (at = message.find(word, at)) != std::string::npos; at += other.size())
      message.replace(at, word.size(), other);
  return message;
}

/// What the message quotes (names of files and in files) may hold any byte.
void set_error(PyObject* type, std::string_view message) {
  PyErr_SetString(type, printable(message).c_str());
}

void translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& e) {
    static const auto rows = table();
    PyObject* type = error_type;
    for (size_t i = 0; i < kRows; ++i) {
      if (rows[i].matches(e)) type = row_types[i];
    }
    set_error(type, in_python(e.what()));
  } catch (const std::bad_alloc&) {
    set_error(type_named("OutOfMemory"), "the process has no memory left");
  } catch (const std::filesystem::filesystem_error& e) {
    set_error(type_named("IoError"), fmt::format("{}: {}", e.path1().string(), e.code().message()));
  } catch (const std::bad_cast&) {
    set_error(PyExc_TypeError, "a value is of another type than is needed there");
  } catch (const std::exception& e) {
    set_error(error_type, e.what());
  }
}

PyObject* add_exception(nb::module_& m, const char* name, const nb::tuple& bases, const char* doc) {
  const std::string full = std::string("mica.") + name;
  const nb::object type =
      nb::steal(PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr));
  if (!type.is_valid()) nb::raise_python_error();
  m.attr(name) = type;
  return type.ptr();
}

/// Lets Ctrl-C end a long call. Signals arrive in the main thread alone.
void check_signals() {
  static const auto main_thread = std::this_thread::get_id();
  if (std::this_thread::get_id() != main_thread || !nb::is_alive()) return;
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

void set_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const nb::builtin_exception& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
  } catch (const Error&) {
    translate(exception, nullptr);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

void bind_errors(nb::module_& m) {
  error_type = add_exception(m, "Error", nb::make_tuple(nb::borrow(PyExc_RuntimeError)),
                             "Base of everything the library raises.");
  const auto rows = table();
  for (size_t i = 0; i < kRows; ++i) {
    const nb::tuple bases =
        rows[i].builtin == PyExc_RuntimeError
            ? nb::make_tuple(nb::borrow(error_type))
            : nb::make_tuple(nb::borrow(error_type), nb::borrow(rows[i].builtin));
    row_types[i] = add_exception(m, rows[i].name, bases, rows[i].doc);
  }
  nb::register_exception_translator(translate);
  check_signals();  // notes the thread that imports the module
  set_interrupt_check(check_signals);
}

}  // namespace mica::python

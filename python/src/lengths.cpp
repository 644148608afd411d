// nanobind takes a sequence's word for its length: it multiplies it by the size of a pointer, and a
// length near 2^62 leaves it with room for one. The linker gives it this instead
// (cmake/Python.cmake).
#include <Python.h>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

Py_ssize_t __real_PySequence_Size(PyObject* object);

Py_ssize_t __wrap_PySequence_Size(PyObject* object) {
  constexpr Py_ssize_t kMost = Py_ssize_t{1} << 40;  // more than fits in memory
  const Py_ssize_t size = __real_PySequence_Size(object);
  if (size <= kMost) return size;
  PyErr_Format(PyExc_OverflowError, "a sequence says that it has %zd elements", size);
  return -1;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

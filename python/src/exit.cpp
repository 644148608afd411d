// Threads that are in mica when the interpreter ends, or forks. CPython up to 3.13 ends a thread
// that asks for the GIL then by pthread_exit, which unwinds its stack: through C++ that ends the
// process (some of it may not throw, and destructors ask for the GIL again). Such a thread is
// stopped here instead, as CPython 3.14 does. The linker puts these functions in the place of
// CPython's wherever the extension calls them, nanobind's own calls included (cmake/Python.cmake).
#include <Python.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "mica/core/fork.h"

namespace {

std::atomic<int> g_computing = 0;  ///< threads that let the GIL go to compute or to wait

std::atomic<pthread_t> g_ending_thread{};  ///< the one that takes the interpreter down

[[noreturn]] void stop() {
  for (;;) pause();
}

/// Calls f. A stack that is being unwound stays as it is, for ever.
template <class F>
auto or_stop(F&& f) noexcept {
  try {
    return f();
  } catch (...) {  // of C's functions nothing else comes
    stop();
  }
}

/// A thread that Python does not know has its state made here, as PyGILState_Ensure would. CPython
/// holds a lock meanwhile that its forks do not wait for: before 3.12 the child waits for it then,
/// for ever.
void make_thread_state() {
#if PY_VERSION_HEX < 0x030C0000
  static mica::Mutex mutex;  // which forks do wait for
  if (PyGILState_GetThisThreadState()) return;
  const std::lock_guard lock(mutex);
  if (PyThreadState* state = PyThreadState_New(PyInterpreterState_Main()))
    state->gilstate_counter = 0;  // its first user's release takes it down
#endif
}

}  // namespace

namespace mica::python {

/// exit() takes down libraries that kernels use, oneDNN's generated code among them. Where a thread
/// is in one, the process ends without that.
void note_exit() {
  g_ending_thread = pthread_self();
  // When the interpreter is gone: the handler that is noted last runs first, before those of
  // libraries that a thread used for the first time just now. Where Python has no place left for
  // one more function (of 32), a little early.
  constexpr auto note = [] {
    on_exit(
        [](int status, void*) {
          if (g_computing == 0) return;
          std::fflush(nullptr);
          _exit(status);
        },
        nullptr);
  };
  if (Py_AtExit(note) != 0) note();
}

}  // namespace mica::python

// The names are the linker's.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

PyThreadState* __real_PyEval_SaveThread();
PyThreadState* __wrap_PyEval_SaveThread() {
  g_computing.fetch_add(1, std::memory_order_relaxed);
  return __real_PyEval_SaveThread();
}

void __real_PyEval_RestoreThread(PyThreadState* state);
void __wrap_PyEval_RestoreThread(PyThreadState* state) {
  g_computing.fetch_sub(1, std::memory_order_relaxed);
  or_stop([&] { __real_PyEval_RestoreThread(state); });
}

PyGILState_STATE __real_PyGILState_Ensure();
PyGILState_STATE __wrap_PyGILState_Ensure() {
  // It would use what is gone.
  if (!Py_IsInitialized() && !pthread_equal(g_ending_thread, pthread_self())) stop();
  make_thread_state();
  return or_stop([] { return __real_PyGILState_Ensure(); });
}

// Python code lets the GIL go and asks for it again all the time.

PyObject* __real_PyObject_Vectorcall(PyObject* callable, PyObject* const* args, size_t n,
                                     PyObject* names);
PyObject* __wrap_PyObject_Vectorcall(PyObject* callable, PyObject* const* args, size_t n,
                                     PyObject* names) {
  return or_stop([&] { return __real_PyObject_Vectorcall(callable, args, n, names); });
}

PyObject* __real_PyObject_VectorcallMethod(PyObject* name, PyObject* const* args, size_t n,
                                           PyObject* names);
PyObject* __wrap_PyObject_VectorcallMethod(PyObject* name, PyObject* const* args, size_t n,
                                           PyObject* names) {
  return or_stop([&] { return __real_PyObject_VectorcallMethod(name, args, n, names); });
}

PyObject* __real_PyObject_GetItem(PyObject* object, PyObject* key);
PyObject* __wrap_PyObject_GetItem(PyObject* object, PyObject* key) {
  return or_stop([&] { return __real_PyObject_GetItem(object, key); });
}

PyObject* __real_PyObject_GetAttr(PyObject* object, PyObject* name);
PyObject* __wrap_PyObject_GetAttr(PyObject* object, PyObject* name) {
  return or_stop([&] { return __real_PyObject_GetAttr(object, name); });
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

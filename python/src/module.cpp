#include <cstdlib>

#include "python/src/bindings.h"

namespace mica::python {

/// Called by the thread that ends the interpreter, before it does (exit.cpp).
void note_exit();

nb::module_ add_submodule(nb::module_& m, const char* name) {
  const std::string full = std::string("mica.") + name;
  auto submodule = nb::steal<nb::module_>(PyModule_New(full.c_str()));
  if (!submodule.is_valid()) nb::raise_python_error();
  m.attr(name) = submodule;
  // What `from mica._mica.functional import *` looks up.
  nb::module_::import_("sys").attr("modules")[("mica._mica." + std::string(name)).c_str()] =
      submodule;
  return submodule;
}

}  // namespace mica::python

namespace {
bool is_loaded = false;

bool warns_of_leaks() {
  const char* verbose = std::getenv("MICA_VERBOSE");
  return verbose && std::string_view(verbose).find("leaks") != std::string_view::npos;
}
}  // namespace

NB_MODULE(_mica, m) {
  // Its classes are known to nanobind under their C++ types, and objects of them may live.
  if (std::exchange(is_loaded, true))
    throw nanobind::import_error(
        "mica cannot be loaded a second time in one process: leave it, mica._mica at least, in "
        "sys.modules, or start another process");
  // Classes then say that they are mica.Tensor, where users find them.
  m.attr("__name__") = "mica";
  m.attr("__version__") = MICA_VERSION;
  // What threads hold that are stopped at exit, and what other libraries do, is no leak of a
  // program.
  nanobind::set_leak_warnings(warns_of_leaks());
  using namespace mica::python;
  bind_errors(m);
  bind_types(m);
  bind_tensor(m);
  bind_ops(m);
  bind_sparse(m);
  bind_autograd(m);
  bind_compile(m);
  bind_nn(m);
  bind_optim(m);
  bind_amp(m);
  bind_distributed(m);
  bind_data(m);
  bind_train(m);
  bind_io(m);
  bind_models(m);
  bind_text(m);
  bind_profiler(m);
  bind_onnx(m);
  bind_inference(m);
  bind_onnx_export(m);
  bind_settings(m);
  bind_cuda(m);
  bind_kernels(m);
  bind_caller();
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(&note_exit));
}

#include "python/src/bindings.h"

namespace mica::python {

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

NB_MODULE(_mica, m) {
  // Classes then say that they are mica.Tensor, where users find them.
  m.attr("__name__") = "mica";
  m.attr("__version__") = MICA_VERSION;
  using namespace mica::python;
  bind_errors(m);
  bind_types(m);
  bind_tensor(m);
  bind_ops(m);
  bind_autograd(m);
  bind_compile(m);
  bind_nn(m);
  bind_optim(m);
  bind_data(m);
  bind_train(m);
  bind_io(m);
  bind_models(m);
  bind_settings(m);
  bind_cuda(m);
}

// mica.onnx.
#include "mica/onnx/onnx.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "mica/io/read_bytes.h"

#include "python/src/module_handle.h"

namespace mica::python {
namespace {

const onnx::ImportedImpl& imported(nb::handle module) {
  const nn::Module net = module_from(module);
  const auto* impl = dynamic_cast<const onnx::ImportedImpl*>(net.impl().get());
  if (!impl) raise_type_error("mica.onnx: expected what load gave, got {}", class_name(module));
  return *impl;
}

}  // namespace

void bind_onnx(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "onnx");
  scope.def(
      "load",
      [](const std::filesystem::path& path) {
        return module_to_python(without_gil([&] { return onnx::load(path.string()); }));
      },
      "path"_a,
      "Reads a model of ONNX as a module in evaluation mode. It takes its inputs in their order, "
      "or a dict of them by name, and gives its output, or a list of several. Floating "
      "initializers are parameters of their names. Operators and dtypes that mica has not are "
      "listed in the error.");
  scope.def(
      "loads",
      [](const nb::bytes& data) {
        const io::ByteSpan bytes{reinterpret_cast<const std::byte*>(data.c_str()), data.size()};
        return module_to_python(without_gil([&] { return onnx::load(bytes); }));
      },
      "data"_a, "The same from the bytes of a file; external data cannot be read.");
  scope.def(
      "input_names", [](nb::handle module) { return imported(module).input_names(); }, "module"_a,
      "Names of the inputs that a call of a loaded module has to give, in their order.");
  scope.def(
      "output_names", [](nb::handle module) { return imported(module).output_names(); }, "module"_a,
      "Names of the outputs of a loaded module, in their order.");
}

}  // namespace mica::python

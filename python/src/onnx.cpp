// mica.onnx.
#include "mica/onnx/onnx.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "mica/io/read_bytes.h"
#include "mica/onnx/segments.h"

#include "python/src/module_handle.h"
#include "python/src/values.h"

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
  nb::class_<onnx::Segments>(scope, "Segments",
                             "A loaded model as compiled functions with steps on the host between "
                             "them. Any number of threads may call one.")
      .def(
          "__call__",
          [](const onnx::Segments& self, const nb::args& inputs) {
            return forward_values(inputs, [&](const Values& in) { return self(in); });
          },
          "inputs"_a, "What the module gives for these inputs.")
      .def_prop_ro("count", &onnx::Segments::count, ReleaseGil(),
                   "How many compiled functions there are so far.")
      .def_prop_ro("captures", &onnx::Segments::captures, ReleaseGil(),
                   "How often one of them was captured.");
  scope.def(
      "compile", [](nb::handle module) { return onnx::Segments(module_from(module)); }, "net"_a,
      "A module that load gave, to be called as it is: compiled, but for nodes that need a value "
      "of something that depends on the inputs (the condition of an If, the count of a Loop), "
      "which run on the host.");
  scope.def(
      "input_names", [](nb::handle module) { return imported(module).input_names(); }, "module"_a,
      "Names of the inputs that a call of a loaded module has to give, in their order.");
  scope.def(
      "output_names", [](nb::handle module) { return imported(module).output_names(); }, "module"_a,
      "Names of the outputs of a loaded module, in their order.");
}

}  // namespace mica::python

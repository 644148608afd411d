// mica.onnx.export.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/tuple.h>

#include "mica/inference/network.h"
#include "mica/onnx/export.h"
#include "python/src/module_handle.h"
#include "python/src/values.h"

namespace mica::python {

void bind_onnx_export(nb::module_& m) {
  nb::module_ scope = nb::borrow<nb::module_>(m.attr("onnx"));  // that bind_onnx made
  scope.def(
      "export",
      [](nb::handle net, nb::handle example, const std::filesystem::path& path,
         std::vector<std::tuple<std::string, int, std::string>> dynamic, int64_t opset,
         std::vector<std::string> input_names, std::vector<std::string> output_names) {
        onnx::ExportOptions options{.opset = opset,
                                    .input_names = std::move(input_names),
                                    .output_names = std::move(output_names)};
        for (auto& [input, axis, symbol] : dynamic)
          options.dynamic.push_back({std::move(input), axis, std::move(symbol)});
        const Values in = values_from(example, ValuesPath("example"));
        const nn::Module module = module_from(net);
        without_gil([&] { onnx::export_model(module, in, path.string(), options); });
      },
      "net"_a, "example"_a, "path"_a, "dynamic"_a, "opset"_a, "input_names"_a, "output_names"_a,
      "What mica.onnx.export calls, with dynamic axes as (input, axis, name).");
}

}  // namespace mica::python

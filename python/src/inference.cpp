// mica.inference: networks made ready to compute, and their files.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>

#include "mica/inference/engine.h"
#include "mica/inference/network.h"
#include "python/src/callback.h"
#include "python/src/module_handle.h"
#include "python/src/values.h"

namespace mica::python {
namespace {

using inference::Binding;
using inference::Engine;
using Path = std::filesystem::path;

DType precision_of(nb::handle value) {
  if (PyUnicode_Check(value.ptr())) return dtype_from_name(nb::cast<std::string>(value));
  return parse_dtype(value);
}

/// {"x": {0: "batch"}}.
std::vector<inference::DynamicAxis> dynamic_axes(const nb::handle& value) {
  std::vector<inference::DynamicAxis> axes;
  if (value.is_none()) return axes;
  for (const auto& [input, by_axis] : nb::cast<nb::dict>(value))
    for (const auto& [axis, symbol] : nb::cast<nb::dict>(by_axis))
      axes.push_back(
          {nb::cast<std::string>(input), nb::cast<int>(axis), nb::cast<std::string>(symbol)});
  return axes;
}

inference::Calibration calibration_of(const std::string& word) {
  if (word == "minmax") return inference::Calibration::min_max;
  if (word == "percentile") return inference::Calibration::percentile;
  check(word == "entropy",
        "inference.optimize: expected \"minmax\", \"percentile\" or \"entropy\", got '{}'", word);
  return inference::Calibration::entropy;
}

Engine optimize(nb::handle net, nb::handle example, nb::handle precision, nb::handle dynamic,
                std::vector<inference::Profile> profiles, std::vector<std::string> input_names,
                nb::handle calibration, const std::string& calibrate, double percentile) {
  inference::OptimizeOptions options{
      .precision = precision_of(precision),
      .quantize = {.calibration = calibration_of(calibrate), .percentile = percentile},
      .input_names = std::move(input_names),
      .dynamic = dynamic_axes(dynamic),
      .profiles = std::move(profiles)};
  const Values in = values_from(example, ValuesPath("example"));
  for (const nb::handle batch : nb::iter(calibration))
    options.calibration.push_back(values_from(batch, ValuesPath("calibration")));
  if (nb::isinstance<nn::ModuleImpl>(net)) {
    const nn::Module module = module_from(net);
    return without_gil([&] { return inference::optimize(module, in, std::move(options)); });
  }
  if (!PyCallable_Check(net.ptr()))
    raise_type_error("inference.optimize: expected a module or a function, got {}",
                     class_name(net));
  return without_gil([&] {
    return inference::optimize(
        [net](const Values& given) {
          const nb::gil_scoped_acquire acquire;
          return values_from(call_with_values(net, given), ValuesPath("the result"));
        },
        in, std::move(options));
  });
}

/// [("x", "float32", (None or size, …))].
nb::list describe_inputs(const inference::Network& network) {
  nb::list all;
  for (const inference::Network::Input& input : network.inputs) {
    nb::list shape;
    for (const inference::Size& size : input.shape)
      if (size.is_fixed()) {
        shape.append(size.at({}));
      } else {
        shape.append(size.print(network.symbols));
      }
    all.append(nb::make_tuple(input.name, python_name(input.dtype), nb::tuple(shape)));
  }
  return all;
}

}  // namespace

void bind_inference(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "inference");
  nb::class_<Binding>(scope, "Binding",
                      "Inputs and outputs of an engine that stay where they are. Not for several "
                      "threads at once.")
      .def("run", &Binding::run, ReleaseGil(), "Reads the inputs, computes, writes the outputs.")
      .def_prop_ro("inputs", [](const Binding& self) { return to_tuple(self.inputs()); })
      .def_prop_ro("outputs", [](const Binding& self) { return to_tuple(self.outputs()); });
  nb::class_<Engine>(scope, "Engine",
                     "A network made ready to compute results and nothing else, without its code. "
                     "Any number of threads may call one.")
      .def(
          "__call__",
          [](const Engine& self, const nb::args& inputs) {
            return forward_values(inputs, [&](const Values& in) { return self(in); });
          },
          "inputs"_a, "Results of these inputs, structured as the network's.")
      .def(
          "bind",
          [](const Engine& self, nb::handle inputs, nb::handle outputs) {
            const Tensors in = parse_tensors(inputs, "inputs");
            const Tensors out = outputs.is_none() ? Tensors() : parse_tensors(outputs, "outputs");
            return without_gil([&] { return self.bind(in, out); });
          },
          "inputs"_a, "outputs"_a = nb::none(),
          "For computing again and again from these very inputs into these outputs, where they "
          "lie; outputs that are not given are made.")
      .def(
          "save", [](const Engine& self, const Path& path) { self.save(path.string()); }, "path"_a,
          ReleaseGil(),
          "Writes a file, all or nothing, which `load` reads without the model's code.")
      .def_prop_ro(
          "inputs", [](const Engine& self) { return describe_inputs(self.network()); },
          "Of each input its name, dtype and sizes; a text is a size that may change.")
      .def_prop_ro(
          "outputs", [](const Engine& self) { return self.network().output_names; },
          "The names of the outputs.")
      .def_prop_ro("device", &Engine::device)
      .def_prop_ro("profiles", &Engine::profiles, "Sizes that plans were made for at once.")
      .def_prop_ro("kernels", &Engine::kernels, ReleaseGil(),
                   "Of every step of the plan that ran last: \"conv2d: onednn\".")
      .def("svg", &Engine::svg, ReleaseGil(),
           "What that plan runs as a picture (SVG): every call with its kernel.")
      .def_prop_ro("plans", &Engine::plans, "How many plans were made.")
      .def(
          "dump", [](const Engine& self) { return self.network().dump(); },
          "The network, one line per call.");
  scope.def("optimize", &optimize, "net"_a, "example"_a, nb::kw_only(), "precision"_a = "f32",
            "dynamic"_a = nb::none(), "profiles"_a = std::vector<inference::Profile>(),
            "input_names"_a = std::vector<std::string>(), "calibration"_a = nb::tuple(),
            "calibrate"_a = "entropy", "percentile"_a = 99.99,
            "An engine of a module in evaluation mode, or of a function, for arguments like the "
            "example: a tensor, a tuple of several, a dict by name. precision: \"f32\", \"f16\", "
            "\"bf16\", or \"int8\" with batches to calibrate with. dynamic: {\"x\": {0: "
            "\"batch\"}} names axes whose sizes may change; "
            "profiles, such as [{\"batch\": 1}, {\"batch\": 128}], are sizes to be ready for.");
  scope.def(
      "load",
      [](const Path& path, nb::handle device) {
        const Device on = device.is_none() ? Device() : parse_device(device);
        return without_gil([&] { return inference::load(path.string(), on); });
      },
      "path"_a, "device"_a = nb::none(),
      "Reads what Engine.save wrote; kernels are chosen for this device and library.");
}

}  // namespace mica::python

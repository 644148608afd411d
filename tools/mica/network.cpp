#include "tools/mica/network.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "mica/core/check.h"
#include "mica/inference/engine_file.h"
#include "mica/inference/network.h"
#include "mica/onnx/model.h"
#include "mica/onnx/onnx.h"
#include "mica/ops/fill/fill.h"
#include "tools/mica/command.h"

namespace mica::tool {
namespace {

Shape parse_shape(std::string_view text) {
  Shape shape;
  const std::string_view whole = text;
  while (!text.empty()) {
    const auto end = std::min(text.find('x'), text.size());
    int64_t size = 0;
    const auto [at, error] = std::from_chars(text.data(), text.data() + end, size);
    const bool trails = end + 1 == text.size();  // an x with nothing after it
    check(error == std::errc() && at == text.data() + end && size >= 1 && !trails &&
              shape.rank() < Dims::kMaxRank,
          "--shape: expected sizes such as 1x3x224x224, got '{}'", whole);
    shape.push_back(size);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return shape;
}

/// The shapes that were given, by input.
std::map<std::string, Shape> shapes_by_input(const std::vector<std::string>& given,
                                             const std::vector<std::string>& inputs) {
  std::map<std::string, Shape> all;
  for (const std::string& text : given) {
    const auto equals = text.find('=');
    check(equals != std::string::npos || inputs.size() == 1,
          "--shape: the network has {} inputs; say which one: {}=…", inputs.size(), inputs[0]);
    const std::string name = equals == std::string::npos ? inputs[0] : text.substr(0, equals);
    check(std::ranges::find(inputs, name) != inputs.end(), "--shape: there is no input '{}'", name);
    all[name] = parse_shape(std::string_view(text).substr(equals + 1));
  }
  return all;
}

DType dtype_of(int32_t onnx, const std::string& input) {
  for (int i = 0; i < kDTypes; ++i)
    if (info_of(static_cast<DType>(i)).onnx == onnx) return static_cast<DType>(i);
  fail<Unsupported>("input '{}' has a type of ONNX ({}) that mica has not", input, onnx);
}

/// What a model says of its inputs, with the sizes that were given.
struct Described {
  std::vector<std::string> names;
  Tensors example;
  std::vector<inference::DynamicAxis> dynamic;
};

Described describe(const onnx::ModelProto& model, const NetworkOptions& options) {
  Described d;
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const onnx::ValueInfoProto& input : model.graph.input) {
    const bool weight = std::ranges::any_of(model.graph.initializer,
                                            [&](const auto& t) { return t.name == input.name; });
    if (weight) continue;
    inputs.push_back(&input);
    d.names.push_back(input.name);
  }
  check<Unsupported>(!inputs.empty(), "the model has no input");
  const std::map<std::string, Shape> given = shapes_by_input(options.shapes, d.names);
  for (const onnx::ValueInfoProto* input : inputs) {
    const auto at = given.find(input->name);
    const auto& dims = input->type.shape;
    check<Unsupported>(input->type.kind == onnx::TypeProto::Kind::tensor, "input '{}' is no tensor",
                       input->name);
    check(at != given.end() || dims, "input '{}' has no shape in the file; give --shape {}=…",
          input->name, input->name);
    check(at == given.end() || !dims || at->second.rank() == static_cast<int>(dims->size()),
          "--shape: input '{}' has {} axes in the file, got {}", input->name,
          dims ? dims->size() : 0, at == given.end() ? Shape() : at->second);
    Shape shape = at == given.end() ? Shape() : at->second;
    for (size_t axis = 0; at == given.end() && axis < dims->size(); ++axis) {
      const onnx::Dimension& dim = (*dims)[axis];
      if (dim.value && *dim.value > 0) {
        shape.push_back(*dim.value);
        continue;
      }
      check(axis == 0, "input '{}': the file does not say the size of axis {}; give --shape {}=…",
            input->name, axis, input->name);
      shape.push_back(1);
      d.dynamic.push_back({input->name, 0, dim.param.empty() ? "batch" : dim.param});
    }
    d.example.push_back(
        zeros(shape, {dtype_of(input->type.elem_type, input->name), options.device}));
  }
  return d;
}

inference::Engine import(const std::string& path, const NetworkOptions& options) {
  const Described d = describe(onnx::read_model(path), options);
  const nn::Module module = onnx::load(path);
  module.to(options.device);
  std::vector<Values> leaves(d.example.begin(), d.example.end());
  const Values example = leaves.size() == 1 ? leaves[0] : Values::list(std::move(leaves));
  inference::OptimizeOptions optimize{
      .precision = options.precision, .input_names = d.names, .dynamic = d.dynamic};
  try {
    return inference::optimize(module, example, optimize);
  } catch (const Unsupported& e) {
    if (d.dynamic.empty()) throw;
    note("mica: {}\nmica: its inputs keep the size 1 on axes without one; --shape gives another\n",
         e.what());
    optimize.dynamic.clear();
    return inference::optimize(module, example, optimize);
  }
}

}  // namespace

bool is_onnx(const std::string& path) { return path.ends_with(".onnx"); }

bool is_network(const std::string& path) { return is_onnx(path) || path.ends_with(".mica"); }

inference::Engine open_network(const std::string& path, const NetworkOptions& options) {
  if (is_onnx(path)) return import(path, options);
  check(options.precision == DType::f32 && options.shapes.empty(),
        "{}: an engine has its precision and shapes; --precision and --shape are for ONNX files",
        path);
  check<IoError>(path.ends_with(".mica") || inference::is_engine(path),
                 "{}: expected a model of ONNX, NAME.onnx, or an engine, as mica convert writes",
                 path);
  return inference::load(path, options.device);
}

void add_network_flags(CLI::App& command, NetworkFlags& flags) {
  command
      .add_option("--device", flags.device, "cpu, cuda, cuda:N, or auto: CUDA where there is any")
      ->capture_default_str();
  command
      .add_option("--precision", flags.precision, "Of an ONNX model: what products are computed in")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  command.add_option("--shape", flags.shapes,
                     "Of an input of an ONNX model: 1x3x224x224, or x=1x3x224x224 where it has "
                     "several");
}

NetworkOptions NetworkFlags::parsed() const {
  return {
      .device = choose_device(device), .precision = dtype_from_name(precision), .shapes = shapes};
}

}  // namespace mica::tool

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/inference/engine.h"
#include "mica/inference/engine_file.h"
#include "mica/inference/network.h"
#include "mica/io/file.h"
#include "mica/io/safetensors.h"
#include "mica/onnx/model.h"
#include "tools/mica/command.h"
#include "tools/mica/network.h"

namespace mica::tool {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string file;
  std::string picture;
  NetworkFlags flags;
  bool calls = false;
  bool json = false;
};

/// What is told of a file: properties, and how often each operator occurs.
struct Report {
  Json properties = Json::object();
  std::map<std::string, int64_t> operators;
  std::string calls;  ///< one line each

  void print(const Options& o) const {
    if (o.json) {
      Json all = {{"file", o.file}};
      all.update(properties);
      if (!operators.empty()) all["operators"] = operators;
      say("{}\n", all.dump(-1, ' ', false, Json::error_handler_t::replace));
      return;
    }
    say("{}\n", printable(o.file));
    const auto text = [](const Json& v) {
      return printable(v.is_string() ? v.get<std::string>()
                                     : v.dump(-1, ' ', false, Json::error_handler_t::replace));
    };
    for (const auto& [key, value] : properties.items()) {
      if (!value.is_array()) {
        say("  {:<12}{}\n", key, text(value));
        continue;
      }
      say("  {}\n", key);
      for (const Json& entry : value) say("    {}\n", text(entry));
    }
    if (!operators.empty()) say("  operators\n");
    for (const auto& [name, count] : operators) say("    {:<24}{}\n", printable(name), count);
    if (o.calls) say("{}", printable(calls));
  }
};

std::string shape_text(const inference::Network& network, const inference::Network::Input& input) {
  std::string sizes;
  for (const inference::Size& size : input.shape)
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size.print(network.symbols));
  return fmt::format("{}  {}[{}]", input.name, input.dtype, sizes);
}

Report of_engine(const std::string& path) {
  const inference::EngineFile file = inference::load_engine(path);
  const inference::Network& network = file.network;
  Report report;
  Json inputs = Json::array();
  for (const auto& input : network.inputs) inputs.push_back(shape_text(network, input));
  Json profiles = Json::array();
  for (const inference::Profile& profile : file.profiles)
    if (!profile.empty()) profiles.push_back(Json(profile));
  report.properties = {{"kind", "engine"},
                       {"inputs", inputs},
                       {"outputs", network.output_names},
                       {"constants", network.constants.size()},
                       {"bytes", network.constant_bytes()},
                       {"calls", network.calls.size()}};
  if (!profiles.empty()) report.properties["profiles"] = profiles;
  for (const inference::Call& call : network.calls) ++report.operators[call.op->name];
  report.calls = network.dump();
  return report;
}

std::string type_text(const onnx::ValueInfoProto& value) {
  std::string sizes;
  if (value.type.shape)
    for (const onnx::Dimension& d : *value.type.shape)
      sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ",
                           d.value           ? std::to_string(*d.value)
                           : d.param.empty() ? "?"
                                             : d.param);
  std::string dtype = fmt::format("type {}", value.type.elem_type);
  for (int i = 0; i < kDTypes; ++i)
    if (info_of(static_cast<DType>(i)).onnx == value.type.elem_type)
      dtype = name_of(static_cast<DType>(i));
  return fmt::format("{}  {}[{}]", value.name, dtype, sizes);
}

Report of_onnx(const std::string& path) {
  const onnx::ModelProto model = onnx::read_model(path);
  Report report;
  Json opsets = Json::array();
  for (const auto& opset : model.opset_import)
    opsets.push_back(
        fmt::format("{} {}", opset.domain.empty() ? "ai.onnx" : opset.domain, opset.version));
  Json inputs = Json::array();
  for (const auto& value : model.graph.input) inputs.push_back(type_text(value));
  Json outputs = Json::array();
  for (const auto& value : model.graph.output) outputs.push_back(type_text(value));
  report.properties = {
      {"kind", "ONNX model"},
      {"producer", fmt::format("{} {}", model.producer_name, model.producer_version)},
      {"ir_version", model.ir_version},
      {"opsets", opsets},
      {"inputs", inputs},
      {"outputs", outputs},
      {"constants", model.graph.initializer.size()},
      {"bytes", std::filesystem::file_size(path)},
      {"calls", model.graph.node.size()}};
  for (const onnx::NodeProto& node : model.graph.node) {
    ++report.operators[node.domain.empty() ? node.op_type : node.domain + "." + node.op_type];
    std::string in;
    for (const std::string& name : node.input) in += (in.empty() ? "" : ", ") + name;
    std::string out;
    for (const std::string& name : node.output) out += (out.empty() ? "" : ", ") + name;
    report.calls += fmt::format("{} = {}({})\n", out, node.op_type, in);
  }
  return report;
}

Report of_safetensors(const std::string& path) {
  const io::Safetensors file = io::load_safetensors(path);
  Report report;
  Json tensors = Json::array();
  size_t bytes = 0;
  for (const auto& [name, t] : file.tensors) {
    tensors.push_back(fmt::format("{}  {}", name, t.spec()));
    bytes += static_cast<size_t>(t.numel()) * size_of(t.dtype());
  }
  report.properties = {{"kind", "safetensors"}, {"bytes", bytes}, {"tensors", tensors}};
  for (const auto& [key, value] : file.metadata)
    report.properties[key] = value.size() <= 200 ? value : value.substr(0, 200) + "…";
  return report;
}

void inspect(const Options& o) {
  const Report report = is_onnx(o.file)                ? of_onnx(o.file)
                        : inference::is_engine(o.file) ? of_engine(o.file)
                                                       : of_safetensors(o.file);
  if (!o.picture.empty()) {
    const std::string picture = open_network(o.file, o.flags.parsed()).svg();
    io::write_file_atomically(o.picture, [&](io::File& file) { file.write(picture); });
  }
  report.print(o);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto* command = app.add_subcommand(
      "inspect", "Say what a file holds: an engine, an ONNX model, tensors of safetensors");
  auto o = std::make_shared<Options>();
  command->add_option("file", o->file, "net.mica, model.onnx, weights.safetensors")->required();
  command->add_flag("--calls", o->calls, "Also every call of an operator, one line each");
  command->add_option("--picture", o->picture,
                      "An SVG file for a picture of what runs: every call with its kernel");
  add_network_flags(*command, o->flags);
  command->add_flag("--json", o->json, "Print a JSON object");
  command->footer(
      "Examples:\n"
      "  mica inspect resnet50.onnx\n"
      "  mica inspect detector.onnx --picture detector.svg --shape 1x3x640x640\n"
      "  mica inspect net.mica --calls\n"
      "  mica inspect runs/lenet/last.safetensors --json");
  command->callback([o] { inspect(*o); });
}

}  // namespace mica::tool

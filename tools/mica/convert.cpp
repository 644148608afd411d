#include <filesystem>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/inference/network.h"
#include "mica/onnx/export.h"
#include "mica/onnx/to_model.h"
#include "mica/onnx/write_model.h"
#include "tools/mica/command.h"
#include "tools/mica/network.h"

namespace mica::tool {
namespace {

struct Options {
  std::string from;
  std::string to;
  NetworkFlags flags;
  int64_t opset = onnx::ExportOptions::kFirstOpset;
  bool json = false;
};

void convert(const Options& o) {
  check(is_network(o.to), "{}: expected NAME.mica or NAME.onnx to write", o.to);
  const inference::Engine engine = open_network(o.from, o.flags.parsed());
  if (is_onnx(o.to)) {
    onnx::write_model(o.to, onnx::to_model(engine.network().on(Device::cpu()), o.opset));
  } else {
    engine.save(o.to);
  }
  const auto bytes = std::filesystem::file_size(o.to);
  if (o.json) {
    const nlohmann::ordered_json line = {
        {"from", o.from}, {"to", o.to}, {"calls", engine.network().calls.size()}, {"bytes", bytes}};
    say("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    say("{}: {} calls, {:.1f} MB\n", printable(o.to), engine.network().calls.size(),
        static_cast<double>(bytes) * 1e-6);
  }
}

}  // namespace

void add_convert(CLI::App& app) {
  auto* command = app.add_subcommand(
      "convert", "Make an engine of an ONNX model, or an ONNX model of an engine");
  auto o = std::make_shared<Options>();
  command->add_option("from", o->from, "model.onnx or net.mica")->required();
  command->add_option("to", o->to, "net.mica or model.onnx")->required();
  add_network_flags(*command, o->flags);
  command->add_option("--opset", o->opset, "Of an ONNX file that is written")
      ->capture_default_str();
  command->add_flag("--json", o->json, "Print a JSON object");
  command->footer(
      "Examples:\n"
      "  mica convert resnet50.onnx resnet50.mica --precision f16\n"
      "  mica convert detector.onnx detector.mica --shape 1x3x640x640\n"
      "  mica convert net.mica net.onnx --opset 18");
  command->callback([o] { convert(*o); });
}

}  // namespace mica::tool

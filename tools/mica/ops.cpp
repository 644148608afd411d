#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mica/op/op_def.h"
#include "mica/runtime/runtime.h"
#include "tools/mica/command.h"

namespace mica::tool {
namespace {

std::vector<std::string> kernel_names(const OpDef& op, DeviceKind kind) {
  std::vector<std::string> names;
  for (const Kernel& k : op.kernels[static_cast<size_t>(kind)]) names.emplace_back(k.name);
  return names;
}

/// "cudnn, direct"; "view" for an op that runs no kernel.
std::string cell(const OpDef& op, DeviceKind kind) {
  if (op.view) return "view";
  std::string text;
  for (const std::string& name : kernel_names(op, kind)) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "-" : text;
}

std::string gradient(const OpDef& op) {
  if (op.vjp) return "yes";
  return std::string("no: ") + (op.no_gradient ? op.no_gradient : "no reason is given");
}

void print_json(bool cuda) {
  auto list = nlohmann::ordered_json::array();
  for (const OpDef* op : all_ops()) {
    nlohmann::ordered_json entry = {{"op", op->name},
                                    {"view", op->view != nullptr},
                                    {"cpu", kernel_names(*op, DeviceKind::cpu)}};
    if (cuda) entry["cuda"] = kernel_names(*op, DeviceKind::cuda);
    entry["gradient"] = op->vjp != nullptr;
    if (op->no_gradient) entry["no_gradient"] = op->no_gradient;
    list.push_back(entry);
  }
  fmt::print("{}\n", list.dump());
}

void print_table(bool cuda) {
  std::vector<std::vector<std::string>> rows = {{"op", "cpu", "cuda", "gradient"}};
  for (const OpDef* op : all_ops())
    rows.push_back(
        {op->name, cell(*op, DeviceKind::cpu), cell(*op, DeviceKind::cuda), gradient(*op)});
  if (!cuda)
    for (auto& row : rows) row.erase(row.begin() + 2);
  std::vector<size_t> width(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) fmt::print("{:<{}}  ", row[i], width[i]);
    fmt::print("{}\n", row.back());
  }
  if (!cuda) fmt::print("\nno CUDA kernels: {}\n", cuda_unavailable_reason());
}

}  // namespace

void add_ops(CLI::App& app) {
  auto* command = app.add_subcommand(
      "ops", "List the operators with their kernels on each device, in the order they are tried");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON array");
  command->footer(
      "Examples:\n  mica ops\n  mica ops --json\n\n"
      "MICA_VERBOSE=dispatch shows each choice in a run, MICA_KERNEL=conv2d:reference forces one.");
  command->callback([json] {
    const bool cuda = cuda_available();
    *json ? print_json(cuda) : print_table(cuda);
  });
}

}  // namespace mica::tool

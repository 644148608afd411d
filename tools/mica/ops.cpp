#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mica/custom/load_ops.h"
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

std::vector<std::string> dtype_names(const OpDef& op) {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypes; ++i)
    if (op.dtypes.contains(static_cast<DType>(i)))
      names.emplace_back(name_of(static_cast<DType>(i)));
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "-" : text;
}

std::string no_gradient(const OpDef& op) {
  return op.no_gradient ? op.no_gradient : "no reason is given";
}

std::vector<std::string> slot_names(const std::vector<Slot>& slots, bool more) {
  std::vector<std::string> names;
  for (const Slot& slot : slots) names.push_back(slot.name + (slot.optional ? "?" : ""));
  if (more) names.back() += "...";
  return names;
}

/// What fusion and simplification know of an op, in words.
std::vector<std::string> traits(const OpDef& op) {
  std::vector<std::string> words;
  const auto add = [&](bool so, const char* word) {
    if (so) words.emplace_back(word);
  };
  add(op.elementwise > 0, "elementwise");
  add(op.reduction, "reduction");
  add(op.contraction.has_value(), "contraction");
  add(op.copies, "copies");
  add(op.mutates != nullptr, "writes");
  add(op.algebra.commutes, "commutes");
  add(!op.carries_before.empty(), "carries programs before");
  add(!op.carries_after.empty(), "carries programs after");
  return words;
}

/// One object per op: `gradient` is true or the reason why there is none, `dtypes` what the first
/// input may be. A composite has neither of its own: it is made of ops.
void print_json(bool cuda) {
  using Json = nlohmann::ordered_json;
  auto list = Json::array();
  for (const OpDef* op : all_ops()) {
    Json kernels = {{"cpu", kernel_names(*op, DeviceKind::cpu)}};
    if (cuda) kernels["cuda"] = kernel_names(*op, DeviceKind::cuda);
    list.push_back({{"name", op->name},
                    {"kind", op->view ? "view" : "op"},
                    {"kernels", kernels},
                    {"gradient", op->vjp ? Json(true) : Json(no_gradient(*op))},
                    {"dtypes", dtype_names(*op)},
                    {"inputs", slot_names(op->in, op->more_inputs)},
                    {"outputs", slot_names(op->out, op->more_outputs)},
                    {"precision", name_of(op->precision)},
                    {"traits", traits(*op)}});
  }
  for (const char* name : composite_ops()) list.push_back({{"name", name}, {"kind", "composite"}});
  fmt::print("{}\n", list.dump());
}

void print_table(bool cuda) {
  std::vector<std::vector<std::string>> rows = {
      {"op", "cpu", "cuda", "dtypes", "precision", "gradient"}};
  for (const OpDef* op : all_ops()) {
    const auto cell = [&](DeviceKind kind) {
      return op->view ? "view" : joined(kernel_names(*op, kind));
    };
    rows.push_back({op->name, cell(DeviceKind::cpu), cell(DeviceKind::cuda), op->dtypes.words(),
                    name_of(op->precision), op->vjp ? "yes" : "no: " + no_gradient(*op)});
  }
  if (!cuda)
    for (auto& row : rows) row.erase(row.begin() + 2);
  std::vector<size_t> width(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) fmt::print("{:<{}}  ", row[i], width[i]);
    fmt::print("{}\n", row.back());
  }
  // Their kernels and gradients are those of the ops above.
  fmt::print("\nmade of these:");
  size_t column = 14;
  for (const char* name : composite_ops()) {
    const std::string text = fmt::format(" {}", name);
    if (column + text.size() > 100) {
      fmt::print("\n ");
      column = 1;
    }
    column += text.size();
    fmt::print("{}", text);
  }
  fmt::print("\n");
  if (!cuda) fmt::print("\nno CUDA kernels: {}\n", cuda_unavailable_reason());
}

}  // namespace

void add_ops(CLI::App& app) {
  auto* command = app.add_subcommand(
      "ops", "List the operators with their kernels on each device, in the order they are tried");
  auto json = std::make_shared<bool>(false);
  auto libraries = std::make_shared<std::vector<std::string>>();
  command->add_option("--load", *libraries, "Libraries of operators to open first");
  command->add_flag("--json", *json, "Print one JSON array");
  command->footer(
      "Examples:\n  mica ops\n  mica ops --json\n  mica ops --load ./mish.so\n\n"
      "MICA_VERBOSE=dispatch shows each choice in a run, MICA_KERNEL=conv2d:reference forces one.");
  command->callback([json, libraries] {
    for (const std::string& path : *libraries) load_ops(path);
    const bool cuda = cuda_available();
    *json ? print_json(cuda) : print_table(cuda);
  });
}

}  // namespace mica::tool

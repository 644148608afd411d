#include "mica/op/op_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "mica/op/op_def.h"
#include "mica/runtime/runtime.h"

namespace mica {
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
std::string as_json(bool cuda) {
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
  return list.dump() + "\n";
}

std::string as_table(bool cuda) {
  std::string text;
  const auto out = std::back_inserter(text);
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
    for (size_t i = 0; i + 1 < row.size(); ++i) fmt::format_to(out, "{:<{}}  ", row[i], width[i]);
    fmt::format_to(out, "{}\n", row.back());
  }
  // Their kernels and gradients are those of the ops above.
  fmt::format_to(out, "\nmade of these:");
  size_t column = 14;
  for (const char* name : composite_ops()) {
    const std::string word = fmt::format(" {}", name);
    if (column + word.size() > 100) {
      fmt::format_to(out, "\n ");
      column = 1;
    }
    column += word.size();
    text += word;
  }
  fmt::format_to(out, "\n");
  if (!cuda) fmt::format_to(out, "\nno CUDA kernels: {}\n", cuda_unavailable_reason());
  return text;
}

}  // namespace

std::string describe_ops(OpsFormat format) {
  const bool cuda = cuda_available();
  return format == OpsFormat::json ? as_json(cuda) : as_table(cuda);
}

}  // namespace mica

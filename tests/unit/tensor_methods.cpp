#include "tests/unit/tensor_methods.h"

#include <fmt/core.h>

#include <set>
#include <string_view>

#include "mica/op/function.h"

namespace mica {
namespace {

/// Methods that are written by hand, in core/tensor.h, or that have a word of C++ for a name.
const std::set<std::string_view> kByHand = {"index", "index_put", "item",  "detach", "bool",
                                            "float", "double",    "short", "int",    "long"};

/// How a parameter is declared; empty where a method has none such.
std::string type_of(const Parameter& p) {
  const auto maybe = [&](const char* type) {
    return p.optional ? fmt::format("std::optional<{}>", type) : std::string(type);
  };
  switch (p.kind) {
    case ParameterKind::tensor:
      return "const Tensor&";
    case ParameterKind::tensors:
      return "const Tensors&";
    case ParameterKind::boolean:
      return maybe("bool");
    case ParameterKind::integer:
      return maybe("int64_t");
    case ParameterKind::number:
      return maybe("Number");
    case ParameterKind::word:
    case ParameterKind::text:
      return "const std::string&";
    case ParameterKind::dims:
      return "const Dims&";
    case ParameterKind::size1:
    case ParameterKind::size2:
    case ParameterKind::size3:
    case ParameterKind::ints:
      return "const Dims&";
    case ParameterKind::dtype:
      return maybe("DType");
    case ParameterKind::device:
      return maybe("Device");
    default:
      return "";
  }
}

std::string text_of(const Parameter& p) {
  const Argument& a = p.fallback;
  if (const auto* number = a.get<Number>())
    return p.kind == ParameterKind::dims ? fmt::format("{{{}}}", to_string(*number))
                                         : to_string(*number);
  if (const auto* word = a.get<std::string>()) return fmt::format("\"{}\"", *word);
  if (const auto* dims = a.get<Dims>()) {
    std::string text = to_string(*dims);
    return fmt::format("{{{}}}", text.substr(1, text.size() - 2));
  }
  return "{}";
}

const char* result_of(ResultKind kind) {
  switch (kind) {
    case ResultKind::tensor:
      return "Tensor";
    case ResultKind::tensors:
      return "Tensors";
    case ResultKind::values_and_indices:
      return "Sorted";
    case ResultKind::boolean:
      return "bool";
    case ResultKind::number:
      return "Number";
    default:
      return nullptr;
  }
}

/// A method in place of an IndexedTensor, of one with a name and of one without.
std::string write_back(std::string_view name, std::string_view declared, std::string_view passed) {
  return fmt::format(
      "  const Tensor& {0}({1}) const& {{ return Tensor::{0}({2}); }}\n"
      "  const Tensor& {0}({1}) && {{ return written(Tensor::{0}({2})); }}\n",
      name, declared, passed);
}

/// A comment of lines of at most 100 characters.
std::string comment(std::string_view doc) {
  std::string text;
  std::string line = "  ///";
  for (size_t at = 0; at < doc.size();) {
    const size_t end = std::min(doc.find_first_of(" \n", at), doc.size());
    const std::string_view word = doc.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (line.size() + 1 + word.size() > 100) {
      text += line + "\n";
      line = "  ///";
    }
    line += fmt::format(" {}", word);
  }
  return text + line + "\n";
}

}  // namespace

MethodText tensor_methods() {
  constexpr std::string_view kOrigin =
      "// Made from what rooms say of their functions by mica_test_unit, which holds it to that:\n"
      "// MICA_UPDATE=1 mica_test_unit --gtest_filter='TensorMethods.*' writes it anew.\n";
  MethodText text{std::string(kOrigin),
                  fmt::format("{}#include \"mica/ops/method.h\"\n\nnamespace mica {{\n\n", kOrigin),
                  std::string(kOrigin)};
  text.indexed += write_back("copy_", "const Tensor& source", "source");
  text.indexed += write_back("fill_", "Number value", "value");
  text.indexed += write_back("zero_", "", "");
  for (const char* name : {"add_", "sub_", "mul_", "div_"})
    for (const char* type : {"const Tensor&", "Number"})
      text.indexed += write_back(name, fmt::format("{} other", type), "other");
  for (const Function& f : all_functions()) {
    if (!f.offer.method || kByHand.contains(f.name)) continue;
    bool described = false;
    for (size_t s = 0; s < f.signatures.size(); ++s) {
      const Signature& signature = f.signatures[s];
      const char* const result = result_of(signature.result);
      bool expressible = result && !signature.parameters.empty() &&
                         signature.parameters[0].kind == ParameterKind::tensor;
      std::string declared;
      std::string defined;
      std::string passed = "*this";
      for (size_t i = 1; i < signature.parameters.size() && expressible; ++i) {
        const Parameter& p = signature.parameters[i];
        const std::string type = type_of(p);
        expressible = !type.empty();
        const char* const comma = declared.empty() ? "" : ", ";
        const std::string fallback = p.required ? "" : " = " + text_of(p);
        if (p.ignored) continue;
        declared += fmt::format("{}{} {}{}", comma, type, p.name, fallback);
        defined += fmt::format("{}{} {}", comma, type, p.name);
        passed += fmt::format(", {}", p.name);
      }
      if (!expressible) continue;
      if (!described) text.declarations += comment(f.doc);
      described = true;
      text.declarations += fmt::format("  {} {}({}) const;\n", result, f.name, declared);
      text.definitions += fmt::format(
          "{0} Tensor::{1}({2}) const {{\n  static const Method<{0}> method(\"{1}\", {3});\n"
          "  return method({4});\n}}\n",
          result, f.name, defined, s, passed);
      if (!f.offer.in_place || signature.result != ResultKind::tensor) continue;
      const std::string others = passed.size() > 7 ? passed.substr(7) : "";
      text.declarations += fmt::format("  const Tensor& {}_({}) const;\n", f.name, declared);
      text.definitions += fmt::format(
          "const Tensor& Tensor::{0}_({1}) const {{\n  return overwrite(*this, {0}({2}));\n}}\n",
          f.name, defined, others);
      text.indexed += write_back(fmt::format("{}_", f.name), declared, others);
    }
  }
  text.definitions += "\n}  // namespace mica\n";
  return text;
}

}  // namespace mica

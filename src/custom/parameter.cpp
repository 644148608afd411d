#include "mica/custom/parameter.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "mica/core/check.h"

namespace mica {
namespace {

/// C++'s types, as a demangler writes them.
constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"double", DType::f64},
    {"float", DType::f32},
    {"__half", DType::f16},
    {"__nv_bfloat16", DType::bf16},
    {"__nv_fp8_e4m3", DType::f8_e4m3},
    {"__nv_fp8_e5m2", DType::f8_e5m2},
    {"long", DType::i64},
    {"long long", DType::i64},
    {"int", DType::i32},
    {"short", DType::i16},
    {"signed char", DType::i8},
    {"char", DType::i8},
    {"unsigned long", DType::u64},
    {"unsigned long long", DType::u64},
    {"unsigned int", DType::u32},
    {"unsigned short", DType::u16},
    {"unsigned char", DType::u8},
    {"bool", DType::boolean},
    // Vectors that memory is read in.
    {"float2", DType::f32},
    {"float3", DType::f32},
    {"float4", DType::f32},
    {"double2", DType::f64},
    {"__half2", DType::f16},
    {"__nv_bfloat162", DType::bf16},
    {"int2", DType::i32},
    {"int4", DType::i32},
    {"uchar4", DType::u8},
};
constexpr size_t kScalars = 18;  ///< of them

std::optional<DType> dtype_of(std::string_view type, bool pointed_to) {
  const auto end = pointed_to ? std::end(kTypes) : std::begin(kTypes) + kScalars;
  const auto* at =
      std::find_if(std::begin(kTypes), end, [&](const auto& row) { return row.first == type; });
  return at == end ? std::nullopt : std::optional(at->second);
}

KernelParameter parse(std::string_view type, size_t position, const std::string& kernel) {
  KernelParameter p;
  p.type = type;
  p.pointer = type.ends_with('*');
  if (p.pointer) {
    type.remove_suffix(1);
    constexpr std::string_view kConst = " const";
    p.written = !type.ends_with(kConst);
    if (!p.written) type.remove_suffix(kConst.size());
    if (type == "void") return p;
  }
  p.dtype = dtype_of(type, p.pointer);
  check<Unsupported>(p.dtype.has_value(),
                     "{}: parameter {} has the type {}; a kernel takes numbers and pointers to "
                     "them, void* for memory of any dtype",
                     kernel, position, p.type);
  return p;
}

}  // namespace

std::vector<KernelParameter> parse_parameters(const std::string& signature,
                                              const std::string& kernel) {
  std::vector<KernelParameter> parameters;
  if (signature.empty() || signature == "void") return parameters;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= signature.size(); ++i) {
    const char c = i < signature.size() ? signature[i] : ',';
    if (c == '<' || c == '(' || c == '[') ++depth;
    if (c == '>' || c == ')' || c == ']') --depth;
    if (c != ',' || depth > 0) continue;
    parameters.push_back(
        parse(std::string_view(signature).substr(begin, i - begin), parameters.size(), kernel));
    begin = i + 2;  // ", "
  }
  return parameters;
}

}  // namespace mica

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mica {

enum class DType : uint8_t { f64, f32, f16, bf16, i64, i32, u8, boolean };

inline constexpr int kDTypes = 8;

constexpr size_t size_of(DType t) {
  constexpr size_t kSizes[kDTypes] = {8, 4, 2, 2, 8, 4, 1, 1};
  return kSizes[static_cast<int>(t)];
}

constexpr bool is_floating(DType t) { return t <= DType::bf16; }

/// "f32", "bool", …
std::string_view name_of(DType t);

/// The dtype named `name` ("f32" or "float32"); raises DTypeError otherwise.
DType dtype_from_name(std::string_view name);

/// The dtype of the result when tensors of two dtypes meet (one committed 8×8 table).
DType promote(DType a, DType b);

}  // namespace mica

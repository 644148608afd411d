#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace mica {

enum class DType : uint8_t { f64, f32, f16, bf16, i64, i32, u8, boolean };

inline constexpr int kDTypes = 8;

constexpr size_t size_of(DType t) {
  constexpr size_t kSizes[kDTypes] = {8, 4, 2, 2, 8, 4, 1, 1};
  return kSizes[static_cast<int>(t)];
}

constexpr bool is_floating(DType t) { return t <= DType::bf16; }

/// A set of dtypes, bit i for dtype i.
class DTypeSet {
 public:
  constexpr DTypeSet(std::initializer_list<DType> types, const char* words) : words_(words) {
    for (const DType t : types) bits_ |= 1U << static_cast<unsigned>(t);
  }
  constexpr bool contains(DType t) const { return (bits_ >> static_cast<unsigned>(t) & 1U) != 0; }
  /// "a floating dtype", for messages.
  constexpr const char* words() const { return words_; }

 private:
  unsigned bits_ = 0;
  const char* words_;
};

inline constexpr DTypeSet kFloatDTypes{{DType::f64, DType::f32, DType::f16, DType::bf16},
                                       "a floating dtype"};
inline constexpr DTypeSet kIntegerDTypes{{DType::i64, DType::i32, DType::u8}, "an integer dtype"};
inline constexpr DTypeSet kNumberDTypes{
    {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8},
    "numbers"};
inline constexpr DTypeSet kBitDTypes{{DType::i64, DType::i32, DType::u8, DType::boolean},
                                     "integers or bool"};
inline constexpr DTypeSet kBoolDType{{DType::boolean}, "bool"};
inline constexpr DTypeSet kAllDTypes{{DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64,
                                      DType::i32, DType::u8, DType::boolean},
                                     "any dtype"};

/// "f32", "bool", …
std::string_view name_of(DType t);

/// The dtype named `name` ("f32" or "float32"); raises DTypeError otherwise.
DType dtype_from_name(std::string_view name);

/// The dtype of the result when tensors of two dtypes meet (one committed 8×8 table).
DType promote(DType a, DType b);

}  // namespace mica

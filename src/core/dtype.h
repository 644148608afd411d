#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace mica {

enum class DType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  c64,
  c128
};

inline constexpr int kDTypes = 17;

enum class DTypeKind : uint8_t { floating, signed_integer, unsigned_integer, boolean, complex };

/// What is to be known of a dtype. Whoever needs another fact of each dtype adds a column.
struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::string_view long_name;  ///< NumPy's and Python's
  size_t size;                 ///< bytes of an element
  DTypeKind kind;
  /// What an element is computed in: f64, f32, i64, u64, c64 or c128. Of dtypes that only hold
  /// values, what they are converted by.
  DType carrier;
  bool computes;           ///< false where ops only move and cast it
  int digits;              ///< bits of the largest whole numbers that are all held
  double largest;          ///< of floats and parts of complex numbers, like the next
  double smallest_normal;  ///< below it digits are lost
  std::string_view safetensors;
  uint8_t dlpack;       ///< DLPack's code of the kind; the bits follow from the size
  int32_t onnx;         ///< TensorProto.DataType
  const char* format;   ///< of the struct module and the buffer protocol; null: it has none
  const char* typestr;  ///< of NumPy's array interface; null: NumPy has it not
  const char* source;   ///< the type in the source of generated kernels; null: they do not take it
};

// clang-format off
inline constexpr std::array<DTypeInfo, kDTypes> kDTypeTable = {{
    {DType::f64, "f64", "float64", 8, DTypeKind::floating, DType::f64, true, 53, 0x1.fffffffffffffp1023, 0x1p-1022, "F64", 2, 11, "d", "<f8", "double"},
    {DType::f32, "f32", "float32", 4, DTypeKind::floating, DType::f32, true, 24, 0x1.fffffep127, 0x1p-126, "F32", 2, 1, "f", "<f4", "float"},
    {DType::f16, "f16", "float16", 2, DTypeKind::floating, DType::f32, true, 11, 65504, 0x1p-14, "F16", 2, 10, "e", "<f2", "f16"},
    {DType::bf16, "bf16", "bfloat16", 2, DTypeKind::floating, DType::f32, true, 8, 0x1.fep127, 0x1p-126, "BF16", 4, 16, nullptr, nullptr, "bf16"},
    {DType::f8_e4m3, "f8_e4m3", "float8_e4m3fn", 1, DTypeKind::floating, DType::f32, false, 4, 448, 0x1p-6, "F8_E4M3", 10, 17, nullptr, nullptr, nullptr},
    {DType::f8_e5m2, "f8_e5m2", "float8_e5m2", 1, DTypeKind::floating, DType::f32, false, 3, 57344, 0x1p-14, "F8_E5M2", 12, 19, nullptr, nullptr, nullptr},
    {DType::i64, "i64", "int64", 8, DTypeKind::signed_integer, DType::i64, true, 63, 0, 0, "I64", 0, 7, "q", "<i8", "long long"},
    {DType::i32, "i32", "int32", 4, DTypeKind::signed_integer, DType::i64, true, 31, 0, 0, "I32", 0, 6, "i", "<i4", "int"},
    {DType::i16, "i16", "int16", 2, DTypeKind::signed_integer, DType::i64, true, 15, 0, 0, "I16", 0, 5, "h", "<i2", "short"},
    {DType::i8, "i8", "int8", 1, DTypeKind::signed_integer, DType::i64, true, 7, 0, 0, "I8", 0, 3, "b", "|i1", "signed char"},
    {DType::u64, "u64", "uint64", 8, DTypeKind::unsigned_integer, DType::u64, true, 64, 0, 0, "U64", 1, 13, "Q", "<u8", "unsigned long long"},
    {DType::u32, "u32", "uint32", 4, DTypeKind::unsigned_integer, DType::i64, true, 32, 0, 0, "U32", 1, 12, "I", "<u4", "unsigned"},
    {DType::u16, "u16", "uint16", 2, DTypeKind::unsigned_integer, DType::i64, true, 16, 0, 0, "U16", 1, 4, "H", "<u2", "unsigned short"},
    {DType::u8, "u8", "uint8", 1, DTypeKind::unsigned_integer, DType::i64, true, 8, 0, 0, "U8", 1, 2, "B", "|u1", "unsigned char"},
    {DType::boolean, "bool", "bool", 1, DTypeKind::boolean, DType::i64, true, 1, 0, 0, "BOOL", 6, 9, "?", "|b1", "bool"},
    {DType::c64, "c64", "complex64", 8, DTypeKind::complex, DType::c64, true, 24, 0x1.fffffep127, 0x1p-126, "C64", 5, 14, "Zf", "<c8", nullptr},
    {DType::c128, "c128", "complex128", 16, DTypeKind::complex, DType::c128, true, 53, 0x1.fffffffffffffp1023, 0x1p-1022, "C128", 5, 15, "Zd", "<c16", nullptr},
}};
// clang-format on

constexpr const DTypeInfo& info_of(DType t) { return kDTypeTable[static_cast<size_t>(t)]; }
constexpr size_t size_of(DType t) { return info_of(t).size; }
constexpr DType carrier_of(DType t) { return info_of(t).carrier; }
/// "f32", "bool", …
constexpr std::string_view name_of(DType t) { return info_of(t).name; }

constexpr bool is_floating(DType t) { return info_of(t).kind == DTypeKind::floating; }
/// Of either sign; not bool.
constexpr bool is_integer(DType t) {
  return info_of(t).kind == DTypeKind::signed_integer ||
         info_of(t).kind == DTypeKind::unsigned_integer;
}
constexpr bool is_unsigned(DType t) { return info_of(t).kind == DTypeKind::unsigned_integer; }
constexpr bool is_complex(DType t) { return info_of(t).kind == DTypeKind::complex; }
/// What gradients are of: floats and complex numbers.
constexpr bool is_differentiable(DType t) { return is_floating(t) || is_complex(t); }
/// Of a complex dtype, that of its parts; others are themselves.
constexpr DType real_dtype(DType t) {
  return t == DType::c64 ? DType::f32 : t == DType::c128 ? DType::f64 : t;
}
/// The complex dtype whose parts hold a real one: c128 for f64, else c64.
constexpr DType complex_dtype(DType t) {
  return t == DType::f64 || t == DType::c128 ? DType::c128 : DType::c64;
}

struct IntegerLimits {
  int64_t lowest;
  uint64_t largest;
};
constexpr IntegerLimits integer_limits(DType t) {
  const int digits = info_of(t).digits;
  return {info_of(t).kind == DTypeKind::signed_integer
              ? -1 - static_cast<int64_t>(~uint64_t{0} >> (64 - digits))
              : 0,
          ~uint64_t{0} >> (64 - digits)};
}

/// A set of dtypes, bit i for dtype i.
class DTypeSet {
 public:
  constexpr DTypeSet(std::initializer_list<DType> types, const char* words) : words_(words) {
    for (const DType t : types) bits_ |= 1U << static_cast<unsigned>(t);
  }
  /// Those of the table for which `wanted` holds.
  constexpr DTypeSet(bool (*wanted)(const DTypeInfo&), const char* words) : words_(words) {
    for (const DTypeInfo& i : kDTypeTable)
      if (wanted(i)) bits_ |= 1U << static_cast<unsigned>(i.dtype);
  }
  constexpr bool contains(DType t) const { return (bits_ >> static_cast<unsigned>(t) & 1U) != 0; }
  /// "a floating dtype", for messages.
  constexpr const char* words() const { return words_; }
  /// These and the complex ones.
  constexpr DTypeSet with_complex() const {
    DTypeSet all = *this;
    for (const DType t : {DType::c64, DType::c128}) all.bits_ |= 1U << static_cast<unsigned>(t);
    if (!contains(DType::c64))
      all.words_ = contains(DType::boolean) ? "numbers or bool"
                   : contains(DType::i64)   ? "numbers"
                                            : "a floating or complex dtype";
    return all;
  }

 private:
  unsigned bits_ = 0;
  const char* words_;
};

inline constexpr DTypeSet kFloatDTypes{
    [](const DTypeInfo& i) { return i.computes && i.kind == DTypeKind::floating; },
    "a floating dtype"};
inline constexpr DTypeSet kIntegerDTypes{[](const DTypeInfo& i) { return is_integer(i.dtype); },
                                         "an integer dtype"};
inline constexpr DTypeSet kNumberDTypes{[](const DTypeInfo& i) {
                                          return i.computes && i.kind != DTypeKind::boolean &&
                                                 i.kind != DTypeKind::complex;
                                        },
                                        "real numbers"};
inline constexpr DTypeSet kBitDTypes{
    [](const DTypeInfo& i) { return is_integer(i.dtype) || i.kind == DTypeKind::boolean; },
    "integers or bool"};
inline constexpr DTypeSet kBoolDType{{DType::boolean}, "bool"};
inline constexpr DTypeSet kComplexDTypes{{DType::c64, DType::c128}, "a complex dtype"};
/// What ops compute with that know nothing of complex numbers.
inline constexpr DTypeSet kComputedDTypes{
    [](const DTypeInfo& i) { return i.computes && i.kind != DTypeKind::complex; },
    "real numbers or bool"};
/// For ops that move values.
inline constexpr DTypeSet kAllDTypes{[](const DTypeInfo&) { return true; }, "any dtype"};

/// The dtype named `name` ("f32" or "float32"); raises DTypeError otherwise.
DType dtype_from_name(std::string_view name);

/// Whether a dtype holds every value of another.
bool holds_all(DType to, DType from);

/// The dtype of the result when tensors of two dtypes meet, from their kinds and sizes: a complex
/// number with a float one whose parts hold both, a float with an integer the float, f16 with bf16
/// f32, two integers the smallest that holds both. None
/// for u64 with a signed integer, and for dtypes that only hold values with any other.
std::optional<DType> common_dtype(DType a, DType b);
/// The same; raises DTypeError where there is none.
DType promote(DType a, DType b);

}  // namespace mica

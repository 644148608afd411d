#include "mica/core/dtype.h"

#include "mica/core/check.h"

namespace mica {
namespace {

constexpr std::string_view kNames[kDTypes] = {"f64", "f32", "f16", "bf16",
                                              "i64", "i32", "u8",  "bool"};
constexpr std::string_view kLongNames[kDTypes] = {"float64", "float32", "float16", "bfloat16",
                                                  "int64",   "int32",   "uint8",   "bool"};
}  // namespace

std::string_view name_of(DType t) { return kNames[static_cast<int>(t)]; }

DType dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypes; ++i)
    if (name == kNames[i] || name == kLongNames[i]) return static_cast<DType>(i);
  fail<DTypeError>("no dtype is named '{}'; expected f64, f32, f16, bf16, i64, i32, u8 or bool",
                   name);
}

DType promote(DType a, DType b) {
  using enum DType;
  // clang-format off
  constexpr DType kTable[kDTypes][kDTypes] = {
      //         f64  f32  f16   bf16  i64   i32   u8    bool
      /* f64  */ {f64, f64, f64,  f64,  f64,  f64,  f64,  f64},
      /* f32  */ {f64, f32, f32,  f32,  f32,  f32,  f32,  f32},
      /* f16  */ {f64, f32, f16,  f32,  f16,  f16,  f16,  f16},
      /* bf16 */ {f64, f32, f32,  bf16, bf16, bf16, bf16, bf16},
      /* i64  */ {f64, f32, f16,  bf16, i64,  i64,  i64,  i64},
      /* i32  */ {f64, f32, f16,  bf16, i64,  i32,  i32,  i32},
      /* u8   */ {f64, f32, f16,  bf16, i64,  i32,  u8,   u8},
      /* bool */ {f64, f32, f16,  bf16, i64,  i32,  u8,   boolean},
  };
  // clang-format on
  return kTable[static_cast<int>(a)][static_cast<int>(b)];
}

}  // namespace mica

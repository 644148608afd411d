#pragma once

#include <cstdint>

namespace mica {

/// In which dtype an op computes where low precision is asked for (autocast).
enum class Precision : uint8_t {
  any,     ///< as its inputs come
  low,     ///< in the low dtype: products, which tensor cores compute
  f32,     ///< in f32: sums of many terms, powers, losses
  widest,  ///< in the widest dtype among its inputs
};
const char* name_of(Precision precision);

}  // namespace mica

#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "mica/core/number.h"
#include "mica/custom/compiler.h"
#include "mica/op/params.h"

namespace mica {

/// Numbers that a kernel from source is given, in order.
struct KernelValues {
  static constexpr size_t kMost = 24;

  std::array<uint64_t, kMost> bits{};
  std::array<Number::Kind, kMost> kinds{};
  uint64_t count = 0;

  void add(Number value) {
    bits[count] = value.bits();
    kinds[count++] = value.kind();
  }
  Number operator[](size_t i) const {
    switch (kinds[i]) {
      case Number::Kind::floating:
        return std::bit_cast<double>(bits[i]);
      case Number::Kind::boolean:
        return bits[i] != 0;
      case Number::Kind::unsigned_integer:
        return bits[i];
      case Number::Kind::integer:
      case Number::Kind::complex:  // no kernel from source takes them
        break;
    }
    return static_cast<int64_t>(bits[i]);
  }
  bool operator==(const KernelValues&) const = default;
};

inline std::string print_field(const KernelValues& v) {
  std::string text = "(";
  for (size_t i = 0; i < v.count; ++i) text += (i > 0 ? ", " : "") + to_string(v[i]);
  return text + ")";
}
inline uint64_t hash_field(uint64_t h, const KernelValues& v) {
  for (size_t i = 0; i < v.count; ++i) h = hash_field(h, v[i]);
  return h;
}
inline std::string print_field(GridSize s) {
  return "(" + std::to_string(s.x) + ", " + std::to_string(s.y) + ", " + std::to_string(s.z) + ")";
}
inline uint64_t hash_field(uint64_t h, GridSize s) {
  return hash_mix(hash_mix(h, uint64_t{s.x} << 32 | s.y), s.z);
}

/// How a kernel from source is launched.
struct LaunchParams {
  GridSize grid;
  GridSize block;
  int64_t shared_bytes = 0;
  KernelValues values;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("grid", self.grid);
    f("block", self.block);
    f("shared_bytes", self.shared_bytes);
    f("values", self.values);
  }
};

}  // namespace mica

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "mica/core/device.h"
#include "mica/core/dims.h"
#include "mica/core/dtype.h"

namespace mica {

/// Mixes a word into a hash.
inline uint64_t hash_mix(uint64_t h, uint64_t v) {
  h ^= v;
  h *= 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}

std::string print_field(bool v);
std::string print_field(int64_t v);
std::string print_field(double v);
std::string print_field(DType v);
std::string print_field(Device v);
std::string print_field(const Dims& v);
std::string print_field(Size2 v);
std::string print_field(Size3 v);

inline uint64_t hash_field(uint64_t h, bool v) { return hash_mix(h, v); }
inline uint64_t hash_field(uint64_t h, int64_t v) { return hash_mix(h, static_cast<uint64_t>(v)); }
inline uint64_t hash_field(uint64_t h, double v) {
  uint64_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return hash_mix(h, bits);
}
inline uint64_t hash_field(uint64_t h, DType v) { return hash_mix(h, static_cast<uint64_t>(v)); }
inline uint64_t hash_field(uint64_t h, Device v) {
  return hash_mix(h, static_cast<uint64_t>(v.kind) * 256 + static_cast<uint64_t>(v.index));
}
inline uint64_t hash_field(uint64_t h, Size2 v) { return hash_field(hash_field(h, v.h), v.w); }
inline uint64_t hash_field(uint64_t h, Size3 v) {
  return hash_field(hash_field(hash_field(h, v.d), v.h), v.w);
}
inline uint64_t hash_field(uint64_t h, const Dims& v) {
  h = hash_mix(h, static_cast<uint64_t>(v.rank()));
  for (const int64_t d : v) h = hash_mix(h, static_cast<uint64_t>(d));
  return h;
}

template <class T>
bool is_finite_field(const T&) {
  return true;
}
inline bool is_finite_field(double v) { return std::isfinite(v); }

/// What the machinery knows of a Params type; everything follows from its `fields()` visitor.
struct ParamsInfo {
  size_t size;
  uint64_t (*hash)(const void*);
  bool (*equal)(const void*, const void*);
  std::string (*print)(const void*);
  bool (*finite)(const void*);  ///< no number among the fields is infinite or NaN
};

/// Parameters of an op that has none.
struct NoParams {
  template <class Self, class F>
  static void fields(Self&, F&&) {}
};

/// A Params struct is a trivially copyable aggregate with
/// `template <class Self, class F> static void fields(Self& self, F&& f) { f("name", self.name); …
/// }`.
template <class P>
const ParamsInfo& params_info() {
  static_assert(std::is_trivially_copyable_v<P>, "Params must be trivially copyable");
  static const ParamsInfo info = {
      sizeof(P),
      [](const void* p) {
        uint64_t h = sizeof(P);
        P::fields(*static_cast<const P*>(p),
                  [&](const char*, const auto& v) { h = hash_field(h, v); });
        return h;
      },
      [](const void* a, const void* b) {
        bool same = true;
        const auto* pb = static_cast<const std::byte*>(b);
        const auto* pa = static_cast<const std::byte*>(a);
        P::fields(*static_cast<const P*>(a), [&](const char*, const auto& v) {
          using Field = std::remove_cvref_t<decltype(v)>;
          const auto at = reinterpret_cast<const std::byte*>(&v) - pa;
          same = same && v == *reinterpret_cast<const Field*>(pb + at);
        });
        return same;
      },
      [](const void* p) {
        std::string s = "{";
        P::fields(*static_cast<const P*>(p), [&](const char* name, const auto& v) {
          if (s.size() > 1) s += ", ";
          s += name;
          s += " = ";
          s += print_field(v);
        });
        return s + "}";
      },
      [](const void* p) {
        bool finite = true;
        P::fields(*static_cast<const P*>(p),
                  [&](const char*, const auto& v) { finite = finite && is_finite_field(v); });
        return finite;
      },
  };
  return info;
}

/// A Params object of any type, borrowed.
struct ParamsRef {
  const void* data;
  const ParamsInfo* info;

  template <class P>
  static ParamsRef of(const P& params) {
    return {&params, &params_info<P>()};
  }
};

/// A Params object of any type, owned.
class AnyParams {
 public:
  static constexpr size_t kMaxBytes = 256;

  explicit AnyParams(ParamsRef ref) : info_(ref.info) {
    std::memcpy(bytes_, ref.data, info_->size);
  }

  ParamsRef ref() const { return {bytes_, info_}; }
  template <class P>
  const P& as() const {
    return *reinterpret_cast<const P*>(bytes_);
  }
  std::string print() const { return info_->print(bytes_); }
  bool operator==(const AnyParams& o) const {
    return info_ == o.info_ && info_->equal(bytes_, o.bytes_);
  }

 private:
  alignas(8) std::byte bytes_[kMaxBytes] = {};
  const ParamsInfo* info_;
};

}  // namespace mica

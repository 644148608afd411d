#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "mica/core/device.h"
#include "mica/core/dims.h"
#include "mica/core/dtype.h"
#include "mica/core/number.h"
#include "mica/op/fields.h"

namespace mica {

/// Mixes a word into a hash.
inline uint64_t hash_mix(uint64_t h, uint64_t v) {
  h ^= v;
  h *= 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}

inline uint64_t hash_field(uint64_t h, bool v) { return hash_mix(h, v); }
inline uint64_t hash_field(uint64_t h, int64_t v) { return hash_mix(h, static_cast<uint64_t>(v)); }
inline uint64_t hash_field(uint64_t h, double v) {
  uint64_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return hash_mix(h, bits);
}
inline uint64_t hash_field(uint64_t h, Number v) {
  h = v.is_complex() ? hash_mix(h, v.imag_bits()) : h;
  return hash_mix(h, v.bits() ^ static_cast<uint64_t>(v.kind()) << 61);
}
template <NamedEnum E>
uint64_t hash_field(uint64_t h, E v) {
  return hash_mix(h, static_cast<uint64_t>(v));
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
inline bool is_finite_field(Number v) {
  return std::isfinite(v.to_double()) && std::isfinite(v.imag());
}

/// The value of a field of Params, for whoever knows its name alone: importers, printers, other
/// languages. An enum is the name of its value; nothing stands for what cannot be written down.
using FieldValue = std::variant<std::monostate, bool, int64_t, double, Number, std::string, DType,
                                Device, Dims, Size2, Size3>;

template <class T>
FieldValue get_field(const T& v) {
  if constexpr (NamedEnum<T>)
    return print_field(v);
  else if constexpr (std::is_constructible_v<FieldValue, std::in_place_type_t<T>, T>)
    return FieldValue(std::in_place_type<T>, v);
  else
    return {};
}

// Whether a value could be put into a field: of its own type, or an integer for a double, for a
// Number or for every size of a Size2 or Size3, Dims for those.
bool set_field(bool& field, const FieldValue& value);
bool set_field(int64_t& field, const FieldValue& value);
bool set_field(double& field, const FieldValue& value);
bool set_field(Number& field, const FieldValue& value);
bool set_field(DType& field, const FieldValue& value);
bool set_field(Device& field, const FieldValue& value);
bool set_field(Dims& field, const FieldValue& value);
bool set_field(Size2& field, const FieldValue& value);
bool set_field(Size3& field, const FieldValue& value);
template <NamedEnum E>
bool set_field(E& field, const FieldValue& value) {
  const std::string* name = std::get_if<std::string>(&value);
  const std::span<const char* const> names = names_of(field);
  for (size_t i = 0; name && i < names.size(); ++i)
    if (*name == names[i]) {
      field = static_cast<E>(i);
      return true;
    }
  return false;
}
template <class T>
bool set_field(T&, const FieldValue&) {
  return false;
}

/// What the machinery knows of a Params type; everything follows from its `fields()` visitor.
struct ParamsInfo {
  size_t size;
  uint64_t (*hash)(const void*);
  bool (*equal)(const void*, const void*);
  std::string (*print)(const void*);
  bool (*finite)(const void*);  ///< no number among the fields is infinite or NaN
  void (*make_default)(void*);
  /// Names and values, in order.
  std::vector<std::pair<const char*, FieldValue>> (*values)(const void*);
  /// Raises Error, which names the field, what there is and what came.
  void (*set)(void*, std::string_view name, const FieldValue& value);
};
[[noreturn]] void fail_no_field(std::string_view name, const std::string& params);
[[noreturn]] void fail_field_type(std::string_view name, const std::string& now,
                                  const FieldValue& value);

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
      [](void* p) { ::new (p) P{}; },
      [](const void* p) {
        std::vector<std::pair<const char*, FieldValue>> all;
        P::fields(*static_cast<const P*>(p),
                  [&](const char* name, const auto& v) { all.emplace_back(name, get_field(v)); });
        return all;
      },
      [](void* p, std::string_view field, const FieldValue& value) {
        bool found = false;
        P::fields(*static_cast<P*>(p), [&](const char* name, auto& v) {
          if (field != name) return;
          found = true;
          if (!set_field(v, value)) fail_field_type(field, print_field(v), value);
        });
        if (!found) fail_no_field(field, params_info<P>().print(p));
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

  explicit AnyParams(ParamsRef ref) { take(ref); }
  /// The defaults of a type of Params.
  explicit AnyParams(const ParamsInfo& info) : info_(&info) {
    std::memset(bytes_, 0, info.size);
    info.make_default(bytes_);
  }
  AnyParams(const AnyParams& other) noexcept { take(other.ref()); }
  AnyParams& operator=(const AnyParams& other) noexcept {
    if (this != &other) take(other.ref());
    return *this;
  }
  ~AnyParams() = default;

  ParamsRef ref() const { return {bytes_, info_}; }
  template <class P>
  const P& as() const {
    return *reinterpret_cast<const P*>(bytes_);
  }
  std::string print() const { return info_->print(bytes_); }
  /// By name; both raise Error where there is no such field.
  FieldValue get(std::string_view name) const;
  void set(std::string_view name, const FieldValue& value) { info_->set(bytes_, name, value); }
  bool operator==(const AnyParams& o) const {
    return info_ == o.info_ && info_->equal(bytes_, o.bytes_);
  }

 private:
  void take(ParamsRef ref) noexcept {
    info_ = ref.info;
    std::memcpy(bytes_, ref.data, info_->size);
  }

  alignas(8) std::byte bytes_[kMaxBytes];  ///< of which the first info_->size are meant
  const ParamsInfo* info_;
};

}  // namespace mica

#include "mica/core/dtype.h"

#include <cmath>
#include <string>

#include "mica/core/check.h"

namespace mica {
namespace {

consteval bool table_is_in_order() {
  for (size_t i = 0; i < kDTypeTable.size(); ++i)
    if (kDTypeTable[i].dtype != static_cast<DType>(i)) return false;
  return true;
}
static_assert(table_is_in_order());

DType wider(DType a, DType b) { return size_of(a) >= size_of(b) ? a : b; }

std::optional<DType> signed_of(size_t size) {
  for (const DTypeInfo& i : kDTypeTable)
    if (i.kind == DTypeKind::signed_integer && i.size == size) return i.dtype;
  return std::nullopt;
}

}  // namespace

DType dtype_from_name(std::string_view name) {
  std::string names;
  for (const DTypeInfo& i : kDTypeTable) {
    if (name == i.name || name == i.long_name) return i.dtype;
    names += (names.empty() ? "" : ", ") + std::string(i.name);
  }
  fail<DTypeError>("no dtype is named '{}'; expected one of {}", name, names);
}

std::optional<DType> common_dtype(DType a, DType b) {
  if (a == b) return a;
  if (!info_of(a).computes || !info_of(b).computes) return std::nullopt;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (is_complex(a) || is_complex(b)) {
    const bool wide = complex_dtype(a) == DType::c128 || complex_dtype(b) == DType::c128;
    return wide ? DType::c128 : DType::c64;
  }
  if (is_floating(a) && is_floating(b))
    return size_of(a) == size_of(b) ? DType::f32 : wider(a, b);  // f16 and bf16
  if (is_floating(a)) return a;
  if (is_floating(b)) return b;
  if (is_unsigned(a) == is_unsigned(b)) return wider(a, b);
  const DType s = is_unsigned(a) ? b : a;
  const DType u = is_unsigned(a) ? a : b;
  return size_of(s) > size_of(u) ? s : signed_of(2 * size_of(u));
}

bool holds_all(DType to, DType from) {
  if (from == to || from == DType::boolean) return true;
  const DTypeInfo& a = info_of(to);
  const DTypeInfo& b = info_of(from);
  if (is_complex(to)) return holds_all(real_dtype(to), real_dtype(from));
  if (!is_floating(to)) return common_dtype(to, from) == to;
  if (is_complex(from)) return false;
  if (!is_floating(from)) return a.digits >= b.digits && a.computes;
  return a.digits >= b.digits && a.largest >= b.largest &&
         a.smallest_normal * std::ldexp(1, 1 - a.digits) <=
             b.smallest_normal * std::ldexp(1, 1 - b.digits);
}

DType promote(DType a, DType b) {
  const std::optional<DType> both = common_dtype(a, b);
  if (both) return *both;
  for (const DType t : {a, b})
    check<DTypeError>(info_of(t).computes,
                      "{} and {} have no common dtype: {} only holds values; cast it first", a, b,
                      t);
  fail<DTypeError>("{} and {} have no common dtype: no integer holds both; cast one of them", a, b);
}

}  // namespace mica

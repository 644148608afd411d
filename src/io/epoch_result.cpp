#include "mica/io/epoch_result.h"

#include <algorithm>
#include <limits>

namespace mica::io {

double measured(const Measurements& all, std::string_view name) {
  const auto it = std::ranges::find(all, name, [](const auto& m) { return m.first; });
  return it == all.end() ? std::numeric_limits<double>::quiet_NaN() : it->second;
}

Measurements numbers_of(const EpochResult& result) {
  Measurements all;
  EpochResult::members([&](const char* name, auto member, const char*) {
    const auto& value = result.*member;
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      all.emplace_back(name, static_cast<double>(value));
    } else {
      for (const auto& [metric, number] : value) all.emplace_back("test_" + metric, number);
    }
  });
  return all;
}

}  // namespace mica::io

#include "mica/io/limits.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "mica/core/check.h"

namespace mica::io {
namespace {

uint64_t budget_from(const char* variable) {
  constexpr uint64_t kDefault = uint64_t{1} << 30;
  const std::string_view text = variable ? variable : "";
  if (text.empty()) return kDefault;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const int shift = unit == "G" ? 30 : unit == "M" ? 20 : unit == "K" ? 10 : unit.empty() ? 0 : -1;
  const bool good = error == std::errc() && shift >= 0 && number > 0 && number <= UINT64_MAX >> 30;
  check<IoError>(good, "MICA_READ_BUDGET: expected bytes, such as 2000000000, 500M or 8G, got '{}'",
                 text);
  return number << shift;
}

}  // namespace

uint64_t read_budget() {
  static const uint64_t bytes = budget_from(std::getenv("MICA_READ_BUDGET"));
  return bytes;
}

std::string budget_note() {
  return fmt::format("; MICA_READ_BUDGET allows {} bytes for what is read", read_budget());
}

}  // namespace mica::io

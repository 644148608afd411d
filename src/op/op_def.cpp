#include "mica/op/op_def.h"

#include <string_view>

namespace mica {

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::low:
      return "low";
    case Precision::f32:
      return "f32";
    case Precision::widest:
      return "widest";
    case Precision::any:
      break;
  }
  return "any";
}

namespace detail {

std::vector<Slot> slots(std::initializer_list<const char*> names) {
  std::vector<Slot> slots;
  for (std::string_view name : names) {
    const bool optional = name.ends_with('?');
    if (optional) name.remove_suffix(1);
    slots.push_back({std::string(name), optional});
  }
  return slots;
}

bool open_ended(std::vector<Slot>& slots) {
  constexpr std::string_view kMore = "...";
  if (slots.empty() || !slots.back().name.ends_with(kMore)) return false;
  slots.back().name.resize(slots.back().name.size() - kMore.size());
  return true;
}

std::vector<Slot> operands(int count) {
  if (count == 1) return slots({"x"});
  std::vector<Slot> slots;
  for (int i = 0; i < count; ++i) slots.push_back({std::string(1, static_cast<char>('a' + i))});
  return slots;
}

void set_formats(std::vector<Slot>& slots, std::initializer_list<Format> formats) {
  size_t i = 0;
  for (const Format format : formats) slots.at(i++).format = format;
}

}  // namespace detail
}  // namespace mica

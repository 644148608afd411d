#include "mica/op/params.h"

#include "mica/core/check.h"

namespace mica {

std::string print_field(bool v) { return v ? "true" : "false"; }
std::string print_field(int64_t v) { return fmt::format("{}", v); }
std::string print_field(double v) { return fmt::format("{}", v); }
std::string print_field(Number v) { return to_string(v); }
std::string print_field(DType v) { return std::string(name_of(v)); }
std::string print_field(Device v) { return to_string(v); }
std::string print_field(const Dims& v) { return to_string(v); }
std::string print_field(Size2 v) { return fmt::format("{{{}, {}}}", v.h, v.w); }
std::string print_field(Size3 v) { return fmt::format("{{{}, {}, {}}}", v.d, v.h, v.w); }

namespace {

template <class T>
bool take(T& field, const FieldValue& value) {
  const T* given = std::get_if<T>(&value);
  if (given) field = *given;
  return given != nullptr;
}

}  // namespace

bool set_field(bool& field, const FieldValue& value) { return take(field, value); }
bool set_field(int64_t& field, const FieldValue& value) { return take(field, value); }
bool set_field(double& field, const FieldValue& value) {
  if (const auto* n = std::get_if<int64_t>(&value)) {
    field = static_cast<double>(*n);
    return true;
  }
  return take(field, value);
}
bool set_field(Number& field, const FieldValue& value) {
  if (const auto* n = std::get_if<int64_t>(&value)) {
    field = *n;
  } else if (const auto* v = std::get_if<double>(&value)) {
    field = *v;
  } else if (const auto* b = std::get_if<bool>(&value)) {
    field = *b;
  } else {
    return take(field, value);
  }
  return true;
}
bool set_field(DType& field, const FieldValue& value) { return take(field, value); }
bool set_field(Device& field, const FieldValue& value) { return take(field, value); }
bool set_field(Dims& field, const FieldValue& value) { return take(field, value); }
bool set_field(Size2& field, const FieldValue& value) {
  if (const auto* n = std::get_if<int64_t>(&value)) {
    field = {*n, *n};
    return true;
  }
  if (const auto* d = std::get_if<Dims>(&value); d && d->rank() == 2) {
    field = {(*d)[0], (*d)[1]};
    return true;
  }
  return take(field, value);
}
bool set_field(Size3& field, const FieldValue& value) {
  if (const auto* n = std::get_if<int64_t>(&value)) {
    field = {*n, *n, *n};
    return true;
  }
  if (const auto* d = std::get_if<Dims>(&value); d && d->rank() == 3) {
    field = {(*d)[0], (*d)[1], (*d)[2]};
    return true;
  }
  return take(field, value);
}

void fail_no_field(std::string_view name, const std::string& params) {
  fail<Error>("there is no parameter '{}' among {}", name, params);
}

void fail_field_type(std::string_view name, const std::string& now, const FieldValue& value) {
  const std::string given = std::visit(
      [](const auto& v) -> std::string {
        using T = std::remove_cvref_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return "nothing";
        else if constexpr (std::is_same_v<T, std::string>)
          return fmt::format("'{}'", v);
        else
          return print_field(v);
      },
      value);
  fail<Error>("parameter '{}', now {}, cannot be {}", name, now, given);
}

FieldValue AnyParams::get(std::string_view name) const {
  for (const auto& [field, value] : info_->values(bytes_))
    if (name == field) return value;
  fail_no_field(name, print());
}

}  // namespace mica

#pragma once

#include <string>
#include <utility>

namespace mica {

/// How a kernel is written that has the first input of a program in registers.
struct CarryingSource {
  std::string header;       ///< that defines what `body` calls
  std::string parameters;   ///< but the last, `end`
  std::string body;         ///< with `Carried{end}`
  std::string bounds;       ///< of its launches, "256" threads
  bool few_digits = false;  ///< results have some ten bits: fast functions are exact enough
};

/// "name<1, true>"; for files that nvcc compiles, which do without {fmt}.
class TemplateCall {
 public:
  explicit TemplateCall(std::string name) : text_(std::move(name)) {}
  TemplateCall& operator<<(const std::string& argument) {
    text_ += (first_ ? "<" : ", ") + argument;
    first_ = false;
    return *this;
  }
  TemplateCall& operator<<(int argument) { return *this << std::to_string(argument); }
  TemplateCall& operator<<(bool argument) {
    return *this << std::string(argument ? "true" : "false");
  }
  std::string text() const { return text_ + ">"; }

 private:
  std::string text_;
  bool first_ = true;
};

}  // namespace mica

#pragma once

#include "python/src/bindings.h"

namespace mica::python {

/// The value of a word among `words`; `what` names the argument in the error: "pad: mode".
template <class Value>
Value parse_word(const char* what, const std::string& word,
                 std::initializer_list<std::pair<const char*, Value>> words) {
  std::string known;
  for (const auto& [name, value] : words) {
    if (word == name) return value;
    known += known.empty() ? "'" : ", '";
    known += name;
    known += "'";
  }
  fail<Unsupported>("{} must be one of {}, got '{}'", what, known, word);
}

}  // namespace mica::python

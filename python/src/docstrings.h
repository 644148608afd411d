#pragma once

// What Python's help says of operators, in tables sorted by name.
#include <span>
#include <string_view>

namespace mica::python {

struct Docstring {
  std::string_view name;
  const char* text;
};

/// Of the names that only mica.nn.functional has.
std::span<const Docstring> functional_docstrings();
/// Of the functions of mica that are made of others.
std::span<const Docstring> composition_docstrings();

/// The text of a function of mica, Tensor or mica.nn.functional; empty for a name without one.
const char* doc_of(std::string_view name);

}  // namespace mica::python

#pragma once

#include <span>
#include <vector>

namespace mica::linalg {

/// What Python calls the results of a function, and the named tuple that holds them.
struct ResultNames {
  const char* function;
  const char* type;
  std::vector<const char*> fields;
};

/// Of the functions whose results have names.
std::span<const ResultNames> result_names();

}  // namespace mica::linalg

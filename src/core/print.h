#pragma once

#include <string>

#include "mica/core/tensor.h"

namespace mica {

/// How values are written.
struct PrintOptions {
  const char* true_word = "true";
  const char* false_word = "false";
};

/// The values alone, in brackets and columns, shortened in the middle when long. The tensor has
/// memory.
std::string print_values(const Tensor& tensor, const PrintOptions& options = {});

}  // namespace mica

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mica/core/dtype.h"

namespace mica::cuda {

/// "a, x, b" as names; `what` stands in the error for one that is no identifier.
std::vector<std::string> identifiers(const std::string& list, const std::string& what);

/// The type of an element in memory, "f16", and the one it is computed in, "float".
std::string memory_type(DType t);
std::string compute_type(DType t);

/// A user's text as part of a source, with its own lines.
std::string user_lines(const std::string& text, const std::string& name);

}  // namespace mica::cuda

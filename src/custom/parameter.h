#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mica/core/dtype.h"

namespace mica {

/// One parameter of a kernel from source.
struct KernelParameter {
  std::string type;  ///< as the compiler writes it: "float const*"
  bool pointer = false;
  bool written = false;        ///< a pointer to what is not const
  std::optional<DType> dtype;  ///< of an element, or of the value; any where memory is untyped
};

/// The parameters of a signature, "float const*, float*, int". `kernel` names it in the error for
/// a type that no tensor and no number can be.
std::vector<KernelParameter> parse_parameters(const std::string& signature,
                                              const std::string& kernel);

}  // namespace mica

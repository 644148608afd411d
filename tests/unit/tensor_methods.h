#pragma once

#include <string>

namespace mica {

/// The declarations and definitions of Tensor's methods, made from what rooms say of their
/// functions (op/function.h): src/core/tensor_methods.inc and src/ops/tensor_methods.cpp.
struct MethodText {
  std::string declarations;
  std::string definitions;
};
MethodText tensor_methods();

}  // namespace mica

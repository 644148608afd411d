#pragma once

#include <string>

namespace mica {

/// The declarations and definitions of Tensor's methods, made from what rooms say of their
/// functions (op/function.h): src/core/tensor_methods.inc and src/ops/tensor_methods.cpp. And those
/// in place of an IndexedTensor: src/core/indexed_methods.inc.
struct MethodText {
  std::string declarations;
  std::string definitions;
  std::string indexed;
};
MethodText tensor_methods();

}  // namespace mica

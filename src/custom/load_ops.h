#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "mica/core/version.h"
#include "mica/op/function.h"
#include "mica/op/op_def.h"

namespace mica {

/// What a library of operators and the program must have in common; a word of it that differs is
/// named when the library is refused.
inline std::string ops_abi() {
  return "mica " + std::to_string(MICA_VERSION_MAJOR) + "." + std::to_string(MICA_VERSION_MINOR) +
         ", C++ ABI " + std::to_string(__GXX_ABI_VERSION) + ", OpDef of " +
         std::to_string(sizeof(OpDef)) + " bytes, Function of " + std::to_string(sizeof(Function)) +
         ", Tensor of " + std::to_string(sizeof(Tensor));
}

/// What a library adds: operators, and functions that users call.
class OpRegistry {
 public:
  /// Raises Unsupported where there is one of that name.
  const OpDef& add(OpDef op);
  const Function& add(Function function);

  std::vector<const OpDef*> ops;
  std::vector<const Function*> functions;
};

/// Opens a shared library with operators outside of mica and lets it register them. Its source says
///
///     MICA_REGISTER_OPS(registry) { registry.add(my_op()); registry.add(my_function()); }
///
/// The library stays open as long as the process; opening it again gives what it gave. Raises
/// IoError where it cannot be opened, Unsupported where it was built for another mica.
const OpRegistry& load_ops(const std::filesystem::path& path);

}  // namespace mica

/// The two functions that load_ops looks for.
#define MICA_REGISTER_OPS(registry)                                              \
  extern "C" __attribute__((visibility("default"))) const char* mica_ops_abi() { \
    static const std::string abi = mica::ops_abi();                              \
    return abi.c_str();                                                          \
  }                                                                              \
  extern "C" __attribute__((visibility("default"))) void mica_register_ops(      \
      mica::OpRegistry& registry)

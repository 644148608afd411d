#pragma once

#include <vector>

#include "mica/core/storage.h"
#include "mica/op/op_def.h"

namespace mica {

/// Memory for the tensors of a call, to time kernels on, filled with numbers of many bits: on equal
/// ones a GPU needs less power and runs faster. A tensor lies on a 16-byte boundary where its spec
/// says so, and else on none.
class Trial {
 public:
  /// Raises OutOfMemory.
  Trial(const OpDef& op, ParamsRef params, const Specs& specs, Device device);

  /// Microseconds on the device of one run; infinite where it raises an error. A time far above
  /// `best` is a rough one.
  double microseconds(const Kernel& kernel, const KernelState& state, double best) const;

 private:
  const OpDef& op_;
  ParamsRef params_;
  Device device_;
  std::vector<TensorSpec> specs_;     ///< of the inputs, then of the outputs
  std::vector<Ref<Storage>> memory_;  ///< likewise; null for an input left out
  std::vector<Arg> args_;             ///< likewise
  size_t inputs_;
};

}  // namespace mica

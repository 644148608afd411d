#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mica/core/storage.h"
#include "mica/op/kernel.h"

namespace mica {

/// Memory for the tensors of a call, to time kernels on, filled with numbers of many bits: on equal
/// ones a GPU needs less power and runs faster.
class CudaTrial {
 public:
  /// Raises OutOfMemory. `op` is for messages.
  CudaTrial(const char* op, const Specs& specs);

  /// Microseconds on the device per `run`; infinite where it raises an error. A time far above
  /// `best` is a rough one.
  double microseconds(size_t workspace_bytes, const std::function<void(const Call&)>& run,
                      double best) const;
  /// Those of a kernel; infinite where it refuses.
  double microseconds(const Kernel& kernel, const void* params, double best) const;

  /// Prints a time where verbose dispatch is on.
  void tell(const std::string& name, double microseconds) const;

 private:
  const char* op_;
  Device device_;
  std::vector<TensorSpec> in_;
  std::vector<TensorSpec> out_;
  std::vector<Ref<Storage>> memory_;  ///< inputs, then outputs; null for an input left out
};

/// What a time depends on beside the call and its specs: the device and the libraries.
std::string cuda_tuning_key(int device);

}  // namespace mica

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
  double microseconds(const OpDef& op, const Kernel& kernel, const void* params, double best) const;

  /// Prints a time where verbose dispatch is on.
  void tell(const std::string& name, double microseconds) const;

 private:
  const char* op_;
  Device device_;
  std::vector<TensorSpec> in_;
  std::vector<TensorSpec> out_;
  std::vector<Ref<Storage>> memory_;  ///< inputs, then outputs; null for an input left out
};

/// One of several ways in which a kernel can compute a call.
struct KernelWay {
  std::string name;  ///< differs from the others'
  size_t workspace_bytes = 0;
  std::function<void(const Call&)> run;
};

/// The fastest way, by its place in the list: they are timed where autotune is on and the answer is
/// kept; else it is the first, as the caller's model has it. `key` names the problem.
size_t fastest_way(const char* op, const std::string& key, const Specs& specs,
                   const std::vector<KernelWay>& ways);
/// A name made of the numbers that tell a way from others.
std::string way_name(std::initializer_list<int> numbers);
/// How many ways are worth listing.
size_t ways_to_time();

/// What a time depends on beside the call and its specs: the device and the libraries.
std::string cuda_tuning_key(int device);

}  // namespace mica

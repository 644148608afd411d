#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mica {

class Encoder;

/// A source of a user's, to be compiled for GPUs.
struct KernelSource {
  std::string source;
  std::string name;  ///< of a kernel, with the arguments of a template: "scale<float>"
  std::vector<std::string> options;

  bool operator<(const KernelSource& other) const;
};

/// Machine code of a kernel.
struct KernelCode {
  std::string code;
  std::string symbol;     ///< what the kernel is called there
  std::string signature;  ///< the types of its parameters: "float const*, float*, int"
};

/// Blocks of a grid, threads of a block.
struct GridSize {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;

  bool operator==(const GridSize&) const = default;
};

struct KernelLaunch {
  void* kernel = nullptr;  ///< what `load` gave
  GridSize grid;
  GridSize block;
  uint32_t shared_bytes = 0;
  const void* const* arguments = nullptr;  ///< where each is
};

/// What libmica_cuda does for kernels from source.
struct CudaCompiler {
  /// Compiled anew, or as it was kept on disk; needs no GPU. Raises Error with the compiler's
  /// words, in which lines are those of the source.
  KernelCode (*compile)(const KernelSource& source, const std::string& architecture) = nullptr;
  /// "sm_90a".
  std::string (*architecture)(int device) = nullptr;
  /// The kernel, which stays as long as the process.
  void* (*load)(const KernelCode& code) = nullptr;
  void (*launch)(Encoder& encoder, const KernelLaunch& launch, const char* name) = nullptr;
};

}  // namespace mica

#pragma once

#include <span>

#include "mica/op/kernel.h"
#include "mica/ops/flip/axis_map.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica::cuda {

/// An axis of the output; its runs (up to three) count in elements of the input's memory: index i
/// takes the element at first + i · step.
struct MappedAxis {
  int64_t size = 1;
  Divider by_size;
  int64_t begin[3] = {};  ///< of each run; past the axis where there is none
  int64_t first[3] = {};
  int64_t step[3] = {};
  uint32_t constant = 0;  ///< bit k: run k takes the constant
};

/// The output's axes in the order of its memory, innermost first.
struct MappedLoop {
  MappedAxis axes[Dims::kMaxRank];
  int rank = 0;
  int64_t count = 0;
  bool narrow = true;         ///< indices fit in 31 bits
  int64_t offset = 0;         ///< in the input, of the axes that have one index
  bool all_constant = false;  ///< one of them takes the constant
};

/// out[i, j, …] = in[maps[0](i), maps[1](j), …], for a dense output and an input with any strides.
struct MappedCopyState : KernelState {
  MappedCopyState(const TensorSpec& out, const TensorSpec& in, std::span<const AxisMap> maps);
  /// `constant`: an element in the low bytes.
  void run(const Call& c, const ElementWords& constant) const;

  MappedLoop loop;
};

}  // namespace mica::cuda

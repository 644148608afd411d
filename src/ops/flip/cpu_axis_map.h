#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/flip/axis_map.h"

namespace mica {

/// out[i, j, …] = in[maps[0](i), maps[1](j), …], for a dense output and an input with any strides.
/// Axes are merged where that makes the runs longer.
class MappedCopy : public KernelState {
 public:
  MappedCopy(const TensorSpec& out, const TensorSpec& in, std::span<const AxisMap> maps);

  /// `constant` points to an element of the tensors' dtype; null where no run is constant.
  void run(const Arg& out, const Arg& in, const void* constant) const;

 private:
  /// An axis of the output; its runs count in elements of the input's memory.
  struct Axis {
    int64_t size = 0;
    int64_t out_stride = 0;
    AxisMap map;
  };
  template <class Word>
  void run_as(Word* out, const Word* in, Word constant) const;

  std::array<Axis, Dims::kMaxRank> axes_;  // by the output's strides, innermost last
  int rank_ = 0;
  int64_t numel_ = 0;
  int64_t in_offset_ = 0;      // of the axes that have one index
  bool all_constant_ = false;  // one of them takes the constant
};

}  // namespace mica

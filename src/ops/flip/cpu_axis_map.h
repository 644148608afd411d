#pragma once

#include <array>

#include "mica/op/kernel.h"

namespace mica {

/// `length` indices of an output's axis that take the input's indices first, first + step, …, or
/// the constant.
struct AxisRun {
  int64_t length = 0;
  int64_t first = 0;
  int64_t step = 1;
  bool constant = false;
};

/// What an output's axis takes from the same axis of the input, from its first index to its last.
class AxisMap {
 public:
  void add(const AxisRun& run) {
    if (run.length > 0) runs_[static_cast<size_t>(count_++)] = run;
  }
  static AxisMap identity(int64_t n) {
    AxisMap map;
    map.add({.length = n});
    return map;
  }
  AxisRun* begin() { return runs_.data(); }
  AxisRun* end() { return runs_.data() + count_; }
  const AxisRun* begin() const { return runs_.data(); }
  const AxisRun* end() const { return runs_.data() + count_; }
  const AxisRun& operator[](int i) const { return runs_[static_cast<size_t>(i)]; }
  int runs() const { return count_; }

 private:
  std::array<AxisRun, 3> runs_{};
  int count_ = 0;
};

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

#pragma once

#include <array>

#include "mica/core/dims.h"
#include "mica/ops/flip/flip.h"

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

using AxisMaps = std::array<AxisMap, Dims::kMaxRank>;

// Of inputs of these shapes.
AxisMaps flip_maps(const FlipParams& params, const Shape& shape);
AxisMaps roll_maps(const RollParams& params, const Shape& shape);

}  // namespace mica

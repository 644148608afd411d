#pragma once

#include "mica/core/spec.h"
#include "mica/ops/recurrent/recurrent.h"

// Sizes and slots of a recurrent layer, for all its kernels.
namespace mica {

/// Where the op `recurrent` has its inputs and outputs, and `recurrent_grad` its own.
namespace recurrent_io {
enum In { kX, kWIh, kWHh, kBIh, kBHh, kWHr, kH0, kC0, kLengths };
enum Out { kY, kHn, kCn, kGates, kCells };
}  // namespace recurrent_io
namespace recurrent_grad_io {
enum In { kX, kWIh, kWHh, kWHr, kH0, kC0, kLengths, kY, kGates, kCells, kDy, kDhn, kDcn };
enum Out { kDx, kDwIh, kDwHh, kDbIh, kDbHh, kDwHr, kDh0, kDc0 };
}  // namespace recurrent_grad_io

struct RecurrentProblem {
  RecurrentMode mode = RecurrentMode::lstm;
  bool reverse = false;
  bool projected = false;
  int64_t steps = 0, batch = 0, inputs = 0, units = 0;
  int64_t outputs = 0;  ///< of a step: units, or what they are projected to
  int64_t stride = 0;   ///< sequences from step to step in memory; a walk may take `batch` of them

  RecurrentProblem() = default;
  RecurrentProblem(RecurrentMode m, bool backwards, const TensorSpec& x, const TensorSpec& w_hh,
                   bool projects)
      : mode(m),
        reverse(backwards),
        projected(projects),
        steps(x.shape[0]),
        batch(x.shape[1]),
        inputs(x.shape[2]),
        units(w_hh.shape[0] / gates_of(m)),
        outputs(w_hh.shape[1]),
        stride(batch) {}

  bool has_cells() const { return mode == RecurrentMode::lstm; }
  /// Numbers that a unit has at each step: see `recurrent`.
  int64_t slots() const {
    return mode == RecurrentMode::lstm || mode == RecurrentMode::gru ? 4 : 1;
  }
  int64_t rows() const { return slots() * units; }
  int64_t gate_rows() const { return gates_of(mode) * units; }
  /// Step i of the walk is time t.
  int64_t time(int64_t i) const { return reverse ? steps - 1 - i : i; }
};

/// Which of a weight's blocks of H rows makes a slot; -1: none. A GRU's n adds up its input's part
/// in one slot and its state's in the next.
constexpr int64_t gate_of_slot(RecurrentMode mode, int64_t slot, bool of_input) {
  if (mode != RecurrentMode::gru || slot < 2) return slot;
  return (slot == 2) == of_input ? 2 : -1;
}

}  // namespace mica

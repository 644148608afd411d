#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/recurrent/problem.h"

// The passes over memory that a recurrent layer makes beside its products: one table for each
// device. Null pointers stand for what is not there. `lengths` is null where all sequences are
// full.
namespace mica {

struct RecurrentCell {
  const void* from_input;  ///< (N, S H), this step's
  const void* from_state;  ///< (N, S H)
  const void* c_before;    ///< (N, H)
  const void* h_before;    ///< (N, R)
  void* gates;             ///< (N, S H), kept for the gradient; may be `from_input`
  void* c;                 ///< (N, H)
  void* h;                 ///< (N, H): y at this step, or what is projected to it
  void* state;             ///< (N, H), where sequences have lengths: goes on past their ends
  const int64_t* lengths;
  int64_t t;
};
/// h (N, R), projected, into y and the state.
struct RecurrentStore {
  const void* h;
  void* y;
  void* state;
  const int64_t* lengths;
  int64_t t;
};
// Gradients that go from step to step, `carry` and dc, are in the dtype that is computed in.
struct RecurrentCellGrad {
  const void* dy;          ///< (N, R) of this step
  const void* from_state;  ///< (N, R), what the step after sent back through its product
  void* carry;             ///< (N, R), what it sent without: read and written
  void* dc;                ///< (N, H), read and written
  const void* gates;
  const void* c;
  const void* c_before;
  const void* h_before;
  void* dgates;  ///< (N, S H)
  const int64_t* lengths;
  int64_t t;
};
/// The same sums without a cell: dh (N, R) of a step, zero where the sequence has ended.
struct RecurrentCollect {
  const void* dy;
  const void* from_state;
  void* carry;
  void* dh;
  const int64_t* lengths;
  int64_t t;
};

struct RecurrentPasses {
  using P = RecurrentProblem;
  /// Raises (on CUDA notes a fault) where a length is not in [1, T].
  void (*check_lengths)(const P& p, const int64_t* lengths, Encoder* encoder);
  void (*cell)(const P& p, DType dtype, const RecurrentCell& a, Encoder* encoder);
  void (*store)(const P& p, DType dtype, const RecurrentStore& a, Encoder* encoder);
  void (*cell_grad)(const P& p, DType dtype, const RecurrentCellGrad& a, Encoder* encoder);
  void (*collect)(const P& p, DType dtype, const RecurrentCollect& a, Encoder* encoder);
  /// The state before each step, (T, N, R), from y and h0.
  void (*states_before)(const P& p, DType dtype, const void* y, const void* h0,
                        const int64_t* lengths, void* out, Encoder* encoder);
  /// What was projected, (T, N, H), from gates and cells.
  void (*projected)(const P& p, DType dtype, const void* gates, const void* cells, void* out,
                    Encoder* encoder);
  /// Rows of a weight (G H, cols) to those of slots (S H, cols) and back.
  void (*pack)(const P& p, DType dtype, const void* weight, int64_t cols, bool of_input, void* to,
               Encoder* encoder);
  void (*unpack)(const P& p, DType dtype, const void* slots, int64_t cols, bool of_input, void* to,
                 Encoder* encoder);
  /// Both biases (G H) to one (S H).
  void (*pack_bias)(const P& p, DType dtype, const void* b_ih, const void* b_hh, void* to,
                    Encoder* encoder);
  /// n elements; to the dtype that is computed in and from it, zeros from null.
  void (*widen)(DType dtype, const void* from, void* to, int64_t n, Encoder* encoder);
  /// out = carry + from_state, of the tensors' dtype.
  void (*narrow)(DType dtype, const void* carry, const void* from_state, void* out, int64_t n,
                 Encoder* encoder);
  void (*copy)(void* to, const void* from, size_t bytes, Encoder* encoder);
  /// Whether weights lie as slots already.
  bool (*packed)(const P& p);
};

const RecurrentPasses& recurrent_cpu_passes();
const RecurrentPasses& recurrent_cuda_passes();

/// What gradients are added up in from step to step.
constexpr DType carry_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace mica

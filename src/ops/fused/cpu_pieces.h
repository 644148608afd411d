#pragma once

// How the CPU takes the elements of a program through all its calls piece by piece.
#include <algorithm>
#include <array>
#include <vector>

#include "mica/op/select.h"
#include "mica/ops/elementwise/apply.h"
#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/fused/fused.h"
#include "mica/runtime/cpu/stream.h"

namespace mica::fused {

/// What passes between instructions, per thread: it stays in the caches.
inline constexpr size_t kBufferBytes = size_t{96} << 10;
inline constexpr size_t kSlotGap = 320;
/// Elements of a piece: few, where calls cost little, stay in the first cache.
inline constexpr int64_t kMostElements = 768;
inline constexpr int64_t kMostElementsOfKernels = 2048;
/// Pieces below this cost more in calls than the cache saves.
inline constexpr int64_t kFewElements = 256;

inline constexpr int kOperands = Program::kMostInputs + 1;
using Loop = StridedLoop<kOperands>;  // operand 0 is the output; those past the inputs lie like it

inline Loop loop_of(const Specs& s) {
  std::array<Strides, kOperands> strides;
  strides.fill(s.out[0].strides);
  for (size_t k = 0; k < s.in.size(); ++k)
    strides[k + 1] = broadcast_strides(s.in[k], s.out[0].shape);
  return {s.out[0].shape, strides};
}

/// How the loop is cut: along its innermost axis, or along the next where that one is short.
struct Pieces {
  Pieces(const Loop& l, int64_t most) : loop(l) {
    const bool rows = loop.rank > 1 && loop.inner() < most;
    axis = static_cast<size_t>(loop.rank) - (rows ? 2 : 1);
    row = rows ? loop.inner() : 1;
    length = loop.size[axis];
    step = std::clamp<int64_t>(most / std::max<int64_t>(row, 1), 1, std::max<int64_t>(length, 1));
    along = (length + step - 1) / step;
    count = loop.numel == 0 ? 0 : along * (loop.numel / (length * row));
  }

  int64_t elements() const { return step * row; }
  /// Rows in the last piece of an axis.
  int64_t last() const { return length - (along - 1) * step; }
  bool is_last(int64_t piece) const { return piece % along == along - 1; }
  /// Where a piece begins in each operand.
  std::array<int64_t, kOperands> offsets(int64_t piece) const {
    std::array<int64_t, kOperands> at{};
    int64_t rest = piece / along;
    const int64_t begin = piece % along * step;
    for (size_t k = 0; k < kOperands; ++k) at[k] = begin * loop.stride[k][axis];
    for (size_t a = axis; a-- > 0;) {
      const int64_t i = rest % loop.size[a];
      rest /= loop.size[a];
      for (size_t k = 0; k < kOperands; ++k) at[k] += i * loop.stride[k][a];
    }
    return at;
  }
  /// What `rows` rows of an operand look like.
  TensorSpec spec(size_t operand, DType dtype, int64_t rows) const {
    TensorSpec s;
    const auto inner = static_cast<size_t>(loop.rank - 1);
    s.shape = axis == inner ? Shape{rows} : Shape{rows, row};
    s.strides = axis == inner ? Strides{loop.stride[operand][axis]}
                              : Strides{loop.stride[operand][axis], loop.stride[operand][inner]};
    s.dtype = dtype;
    s.defined = true;
    s.aligned = false;
    return s;
  }

  Loop loop;
  size_t axis = 0;     ///< that is cut
  int64_t row = 1;     ///< elements in a row, where rows are
  int64_t length = 0;  ///< rows along the axis
  int64_t step = 1;    ///< rows in a piece
  int64_t along = 0;   ///< pieces along the axis
  int64_t count = 0;   ///< pieces
};

/// Whether every value has one type, that functions compute in: then most calls need no loops
/// around them.
inline bool is_uniform(std::span<const TensorSpec> values) {
  const DType t = values[0].dtype;
  return (t == DType::f32 || t == DType::f64) &&
         std::all_of(values.begin(), values.end(),
                     [&](const TensorSpec& v) { return v.dtype == t; });
}

/// Where everything is kept while a piece is computed. Results are written to the outputs, or, if
/// not `written`, are there when a piece is done.
struct Places {
  Places(const Program& program, const Specs& s, const Loop& loop, bool written) {
    const bool uniform = is_uniform(program.infer(s.in));
    streamed = written && std::any_of(s.out.begin(), s.out.end(), [](const TensorSpec& o) {
                 return static_cast<size_t>(o.numel()) * size_of(o.dtype) >= kStreamingBytes;
               });
    direct = program.is_output();
    const std::vector<bool> read = program.is_read();
    for (size_t i = 0; i < direct.size(); ++i)
      direct[i] = written && direct[i] && (!streamed || (uniform && !read[i]));
    slots = program.slots(direct);
    int count = *std::max_element(slots.begin(), slots.end()) + 1;
    for (size_t k = 0; k < s.in.size(); ++k) {
      bool constant = true;
      for (size_t a = 0; a < static_cast<size_t>(loop.rank); ++a)
        constant = constant && loop.stride[k + 1][a] == 0;
      constants.push_back(constant ? count++ : -1);
    }
    constexpr int64_t kVectors = 64;  // whole ones of every kind
    const auto fitting =
        (static_cast<int64_t>(kBufferBytes) / std::max(count, 1) - static_cast<int64_t>(kSlotGap)) /
        8;
    most =
        std::min(uniform ? kMostElements : kMostElementsOfKernels, fitting / kVectors * kVectors);
  }
  /// Not a power of two: slots at one distance would share the sets of a cache.
  size_t slot_bytes() const { return static_cast<size_t>(most) * 8 + kSlotGap; }

  std::vector<int> slots;      ///< by instruction; -1: its output
  std::vector<int> constants;  ///< by input: the slot of one that is a single value; else -1
  std::vector<bool> direct;    ///< by instruction: it writes its output itself
  bool streamed = false;       ///< outputs are written past the caches
  int64_t most = 0;            ///< elements of a piece
};

struct TiledState : KernelState {
  TiledState(const Pieces& p, Places w) : pieces(p), places(std::move(w)) {}

  /// A piece's tensors and kernels.
  struct Variant {
    std::vector<TensorSpec> values;
    std::vector<std::shared_ptr<const Prepared>> kernels;
    /// Of kernels that can be called without their loops, on these operands.
    std::vector<decltype(ElementState::dense)> dense;
  };
  Pieces pieces;
  Places places;
  std::vector<int> outputs;         ///< by instruction, -1 for none
  std::array<Variant, 2> variants;  ///< whole pieces; the last of an axis
};

/// Prepares a state, whose results are written or not.
void prepare_pieces(const Program& program, const Specs& s, TiledState& state);

using Data = std::array<std::byte*, Program::kMostValues>;

/// Memory of a thread for the pieces it computes; stands on its stack.
struct PieceBuffer {
  PieceBuffer(const TiledState& state, const Call& c);
  alignas(64) std::byte bytes[kBufferBytes];
  Data data;  ///< by value: where the piece's elements are
};

/// Computes a piece, of so many elements. Where results are not written they are in the buffer.
int64_t run_piece(const Program& program, const TiledState& state, const Call& c, int64_t piece,
                  Data& data);

}  // namespace mica::fused

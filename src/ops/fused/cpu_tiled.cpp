#include <array>

#include "mica/core/check.h"
#include "mica/op/select.h"
#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/fused/fused.h"
#include "mica/runtime/cpu/stream.h"

namespace mica {
namespace {

/// Results that pass between instructions, per thread: they stay in the second-level cache.
constexpr size_t kBufferBytes = size_t{96} << 10;
constexpr int64_t kMostElements = 4096;  ///< of a piece
/// Pieces below this cost more in calls than the cache saves.
constexpr int64_t kFewElements = 256;

constexpr int kOperands = Program::kMostInputs + 1;
using Loop = StridedLoop<kOperands>;  // operand 0 is the output; those past the inputs lie like it

Loop loop_of(const Specs& s) {
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

bool streams(const Specs& s) {
  return std::any_of(s.out.begin(), s.out.end(), [](const TensorSpec& o) {
    return static_cast<size_t>(o.numel()) * size_of(o.dtype) >= kStreamingBytes;
  });
}

int count_slots(const std::vector<int>& slots) {
  return *std::max_element(slots.begin(), slots.end()) + 1;
}

/// Elements of a piece when the buffer holds so many results of 8 bytes.
int64_t most_elements(int slots) {
  constexpr int64_t kVectors = 64;  // whole ones of every kind
  const auto fitting = static_cast<int64_t>(kBufferBytes / 8) / std::max(slots, 1);
  return std::min(kMostElements, fitting / kVectors * kVectors);
}

struct TiledState : KernelState {
  explicit TiledState(const Pieces& p) : pieces(p) {}

  /// A piece's tensors and kernels.
  struct Variant {
    std::vector<TensorSpec> values;
    std::vector<std::shared_ptr<const Prepared>> kernels;
  };
  Pieces pieces;
  std::array<Variant, 2> variants;  ///< whole pieces; the last of an axis
  std::vector<int> slots;
  size_t slot_bytes = 0;
  bool streamed = false;
};

Support supports(const FusedParams& p, const Specs& s) {
  const TensorSpec& first = s.out[0];
  for (const TensorSpec& o : s.out)
    if (!o.lies_like(first)) return Support::no("its outputs do not lie in memory alike");
  const Pieces pieces(loop_of(s), most_elements(count_slots(p.program->slots(!streams(s)))));
  if (pieces.count > 1 && pieces.elements() < kFewElements)
    return Support::no(fmt::format("its operands have pieces of {} elements in common, too few",
                                   pieces.elements()));
  return Support::yes();
}

std::shared_ptr<TiledState> prepare(const FusedParams& p, const Specs& s) {
  const Program& program = *p.program;
  const bool streamed = streams(s);
  std::vector<int> slots = program.slots(!streamed);
  const int64_t most = most_elements(count_slots(slots));
  auto state = std::make_shared<TiledState>(Pieces(loop_of(s), most));
  const Pieces& pieces = state->pieces;
  state->streamed = streamed;
  state->slots = std::move(slots);
  state->slot_bytes = static_cast<size_t>(most) * 8;
  if (pieces.count == 0) return state;
  const std::vector<TensorSpec> whole = program.infer(s.in);
  for (size_t which = 0; which < 2; ++which) {
    TiledState::Variant& variant = state->variants[which];
    const int64_t rows = which == 0 ? pieces.step : pieces.last();
    for (size_t v = 0; v < whole.size(); ++v)
      variant.values.push_back(pieces.spec(v < s.in.size() ? v + 1 : 0, whole[v].dtype, rows));
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& one = program.instructions[i];
      std::vector<TensorSpec> in;
      for (const int v : one.operands) in.push_back(variant.values[static_cast<size_t>(v)]);
      const TensorSpec& out = variant.values[s.in.size() + i];
      auto prepared = select(*one.op, one.params.ref(), {in, {&out, 1}}, Device::cpu());
      check(!prepared->needs_copies() && prepared->state->workspace_bytes == 0,
            "fused: kernel {} of {} wants copies or memory", prepared->kernel->name, one.op->name);
      variant.kernels.push_back(std::move(prepared));
    }
  }
  return state;
}

void run_piece(const Program& program, const TiledState& state, const Call& c, int64_t piece,
               std::byte* buffer) {
  const auto& variant = state.variants[state.pieces.is_last(piece) ? 1 : 0];
  const std::array<int64_t, kOperands> at = state.pieces.offsets(piece);
  const size_t inputs = c.in.size();
  const auto place = [](const Arg& arg, int64_t elements) {
    return static_cast<std::byte*>(arg.data) +
           elements * static_cast<int64_t>(size_of(arg.dtype()));
  };
  std::array<Arg, Program::kMostValues> values;
  for (size_t k = 0; k < inputs; ++k) values[k] = {place(c.in[k], at[k + 1]), &variant.values[k]};
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    std::byte* to = nullptr;
    if (state.slots[i] >= 0) {
      to = buffer + static_cast<size_t>(state.slots[i]) * state.slot_bytes;
    } else {
      to = place(c.out[static_cast<size_t>(program.output_of(static_cast<int>(i)))], at[0]);
    }
    values[inputs + i] = {to, &variant.values[inputs + i]};
    std::array<Arg, Program::kMostOperands> in;
    for (size_t k = 0; k < one.operands.size(); ++k)
      in[k] = values[static_cast<size_t>(one.operands[k])];
    const Prepared& prepared = *variant.kernels[i];
    prepared.kernel->run(
        one.params.ref().data, *prepared.state,
        {{in.data(), one.operands.size()}, {&values[inputs + i], 1}, nullptr, nullptr});
  }
  if (!state.streamed) return;
  for (size_t k = 0; k < c.out.size(); ++k) {
    const Arg& from = values[inputs + static_cast<size_t>(program.outputs[k])];
    stream_bytes(place(c.out[k], at[0]), from.data,
                 static_cast<size_t>(from.numel()) * size_of(from.dtype()));
  }
}

void run(const FusedParams& p, const TiledState& state, const Call& c) {
  const int64_t grain =
      std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, state.pieces.elements()));
  parallel_for(state.pieces.count, grain, [&](int64_t begin, int64_t end) {
    alignas(64) std::byte buffer[kBufferBytes];
    for (int64_t piece = begin; piece < end; ++piece)
      run_piece(*p.program, state, c, piece, buffer);
    if (state.streamed) stream_fence();
  });
}

}  // namespace

Kernel fused_tiled_kernel() { return kernel<supports, prepare, run>("tiled"); }

}  // namespace mica

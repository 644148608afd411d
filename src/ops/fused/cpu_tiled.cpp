#include <array>
#include <cstring>

#include "mica/core/check.h"
#include "mica/op/select.h"
#include "mica/ops/elementwise/apply.h"
#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/fused/fused.h"
#include "mica/runtime/cpu/stream.h"

namespace mica {
namespace {

/// What passes between instructions, per thread: it stays in the caches.
constexpr size_t kBufferBytes = size_t{96} << 10;
constexpr size_t kSlotGap = 320;
/// Elements of a piece: few, where calls cost little, stay in the first cache.
constexpr int64_t kMostElements = 768;
constexpr int64_t kMostElementsOfKernels = 2048;
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

/// Whether every value has one type, that functions compute in: then most calls need no loops
/// around them.
bool is_uniform(std::span<const TensorSpec> values) {
  const DType t = values[0].dtype;
  return (t == DType::f32 || t == DType::f64) &&
         std::all_of(values.begin(), values.end(),
                     [&](const TensorSpec& v) { return v.dtype == t; });
}

/// Where everything is kept while a piece is computed.
struct Places {
  Places(const Program& program, const Specs& s, const Loop& loop) {
    const bool uniform = is_uniform(program.infer(s.in));
    streamed = std::any_of(s.out.begin(), s.out.end(), [](const TensorSpec& o) {
      return static_cast<size_t>(o.numel()) * size_of(o.dtype) >= kStreamingBytes;
    });
    direct = program.is_output();
    const std::vector<bool> read = program.is_read();
    for (size_t i = 0; i < direct.size(); ++i)
      direct[i] = direct[i] && (!streamed || (uniform && !read[i]));
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

Support supports(const FusedParams& p, const Specs& s) {
  const TensorSpec& first = s.out[0];
  for (const TensorSpec& o : s.out)
    if (!o.lies_like(first)) return Support::no("its outputs do not lie in memory alike");
  const Loop loop = loop_of(s);
  const Pieces pieces(loop, Places(*p.program, s, loop).most);
  if (pieces.count > 1 && pieces.elements() < kFewElements)
    return Support::no(fmt::format("its operands have pieces of {} elements in common, too few",
                                   pieces.elements()));
  return Support::yes();
}

std::shared_ptr<TiledState> prepare(const FusedParams& p, const Specs& s) {
  const Program& program = *p.program;
  const Loop loop = loop_of(s);
  Places places(program, s, loop);
  const Pieces pieces(loop, places.most);
  auto state = std::make_shared<TiledState>(pieces, std::move(places));
  if (pieces.count == 0) return state;
  const size_t inputs = s.in.size();
  const std::vector<TensorSpec> whole = program.infer(s.in);
  for (size_t which = 0; which < 2; ++which) {
    TiledState::Variant& variant = state->variants[which];
    const int64_t rows = which == 0 ? pieces.step : pieces.last();
    for (size_t v = 0; v < whole.size(); ++v) {
      const bool strided = v < inputs && state->places.constants[v] < 0;
      variant.values.push_back(pieces.spec(strided ? v + 1 : 0, whole[v].dtype, rows));
    }
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& one = program.instructions[i];
      std::vector<TensorSpec> in;
      for (const int v : one.operands) in.push_back(variant.values[static_cast<size_t>(v)]);
      const TensorSpec& out = variant.values[inputs + i];
      auto prepared = select(*one.op, one.params.ref(), {in, {&out, 1}}, Device::cpu());
      check(!prepared->needs_copies() && prepared->state->workspace_bytes == 0,
            "fused: kernel {} of {} wants copies or memory", prepared->kernel->name, one.op->name);
      const auto* element = dynamic_cast<const ElementState*>(prepared->state.get());
      const bool dense = element && std::all_of(in.begin(), in.end(), [&](const TensorSpec& t) {
                           return t.strides == out.strides;
                         });
      variant.dense.push_back(dense ? element->dense : nullptr);
      variant.kernels.push_back(std::move(prepared));
    }
  }
  for (size_t i = 0; i < program.instructions.size(); ++i)
    state->outputs.push_back(program.output_of(static_cast<int>(i)));
  return state;
}

std::byte* element(const Arg& arg, int64_t at) {
  return static_cast<std::byte*>(arg.data) + at * static_cast<int64_t>(size_of(arg.dtype()));
}

/// Writes one value over a whole slot.
void repeat(const Arg& from, int64_t n, std::byte* to) {
  const size_t bytes = size_of(from.dtype());
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(to + static_cast<size_t>(i) * bytes, from.data, bytes);
}

using Data = std::array<std::byte*, Program::kMostValues>;

void run_piece(const Program& program, const TiledState& state, const Call& c, int64_t piece,
               Data& data) {
  const auto& variant = state.variants[state.pieces.is_last(piece) ? 1 : 0];
  const std::array<int64_t, kOperands> at = state.pieces.offsets(piece);
  const size_t inputs = c.in.size();
  for (size_t k = 0; k < inputs; ++k)
    if (state.places.constants[k] < 0) data[k] = element(c.in[k], at[k + 1]);
  const int64_t n = variant.values[inputs].numel();
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    const bool direct = state.places.direct[i];
    if (direct) data[inputs + i] = element(c.out[static_cast<size_t>(state.outputs[i])], at[0]);
    const size_t count = one.operands.size();
    if (variant.dense[i]) {
      std::array<const void*, Program::kMostOperands> in;
      for (size_t k = 0; k < count; ++k) in[k] = data[static_cast<size_t>(one.operands[k])];
      variant.dense[i](one.params.ref().data, in.data(), n, data[inputs + i],
                       direct && state.places.streamed ? elementwise::Store::streamed
                                                       : elementwise::Store::cached);
      continue;
    }
    std::array<Arg, Program::kMostOperands> in;
    for (size_t k = 0; k < count; ++k) {
      const auto v = static_cast<size_t>(one.operands[k]);
      in[k] = {data[v], &variant.values[v]};
    }
    const Arg out{data[inputs + i], &variant.values[inputs + i]};
    const Prepared& prepared = *variant.kernels[i];
    prepared.kernel->run(one.params.ref().data, *prepared.state,
                         {{in.data(), count}, {&out, 1}, nullptr, nullptr});
  }
  for (size_t k = 0; k < c.out.size() && state.places.streamed; ++k) {
    const auto i = static_cast<size_t>(program.outputs[k]);
    if (!state.places.direct[i])
      stream_bytes(element(c.out[k], at[0]), data[inputs + i],
                   static_cast<size_t>(n) * size_of(c.out[k].dtype()));
  }
}

void run(const FusedParams& p, const TiledState& state, const Call& c) {
  const int64_t elements = state.pieces.elements();
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, elements));
  parallel_for(state.pieces.count, grain, [&](int64_t begin, int64_t end) {
    alignas(64) std::byte buffer[kBufferBytes];
    const auto slot = [&](int i) {
      return buffer + static_cast<size_t>(i) * state.places.slot_bytes();
    };
    Data data;
    for (size_t k = 0; k < c.in.size(); ++k) {
      if (state.places.constants[k] < 0) continue;
      data[k] = slot(state.places.constants[k]);
      repeat(c.in[k], elements, data[k]);
    }
    for (size_t i = 0; i < state.places.slots.size(); ++i)
      if (state.places.slots[i] >= 0) data[c.in.size() + i] = slot(state.places.slots[i]);
    for (int64_t piece = begin; piece < end; ++piece) run_piece(*p.program, state, c, piece, data);
    if (state.places.streamed) stream_fence();
  });
}

}  // namespace

Kernel fused_tiled_kernel() { return kernel<supports, prepare, run>("tiled"); }

}  // namespace mica

#include "mica/ops/fused/cpu_pieces.h"

#include <cstring>

#include "mica/core/check.h"
#include "mica/runtime/cpu/stream.h"

namespace mica::fused {

void prepare_pieces(const Program& program, const Specs& s, TiledState& state) {
  const Pieces& pieces = state.pieces;
  if (pieces.count == 0) return;
  const size_t inputs = s.in.size();
  const std::vector<TensorSpec> whole = program.infer(s.in);
  for (size_t which = 0; which < 2; ++which) {
    TiledState::Variant& variant = state.variants[which];
    const int64_t rows = which == 0 ? pieces.step : pieces.last();
    for (size_t v = 0; v < whole.size(); ++v) {
      const bool strided = v < inputs && state.places.constants[v] < 0;
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
    state.outputs.push_back(program.output_of(static_cast<int>(i)));
}

namespace {

std::byte* element(const Arg& arg, int64_t at) {
  return static_cast<std::byte*>(arg.data) + at * static_cast<int64_t>(size_of(arg.dtype()));
}

/// Writes one value over a whole slot.
void repeat(const Arg& from, int64_t n, std::byte* to) {
  const size_t bytes = size_of(from.dtype());
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(to + static_cast<size_t>(i) * bytes, from.data, bytes);
}

}  // namespace

PieceBuffer::PieceBuffer(const TiledState& state, const Call& c) {
  const auto slot = [&](int i) {
    return bytes + static_cast<size_t>(i) * state.places.slot_bytes();
  };
  for (size_t k = 0; k < c.in.size(); ++k) {
    if (state.places.constants[k] < 0) continue;
    data[k] = slot(state.places.constants[k]);
    repeat(c.in[k], state.pieces.elements(), data[k]);
  }
  for (size_t i = 0; i < state.places.slots.size(); ++i)
    if (state.places.slots[i] >= 0) data[c.in.size() + i] = slot(state.places.slots[i]);
}

int64_t run_piece(const Program& program, const TiledState& state, const Call& c, int64_t piece,
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
    prepared.run(one.params.ref().data, {{in.data(), count}, {&out, 1}, nullptr, nullptr});
  }
  for (size_t k = 0; k < c.out.size() && state.places.streamed; ++k) {
    const auto i = static_cast<size_t>(program.outputs[k]);
    if (!state.places.direct[i])
      stream_bytes(element(c.out[k], at[0]), data[inputs + i],
                   static_cast<size_t>(n) * size_of(c.out[k].dtype()));
  }
  return n;
}

}  // namespace mica::fused

#include <algorithm>

#include "mica/core/switch_bytes.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/view/cuda_part.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr size_t kMostInputs = 32;  ///< of a launch: its parameters hold a place for each

/// Dense tensors are rows of words; a row of the output is a row of each input.
struct Rows {
  struct Part {
    const void* in;
    uint32_t begin;   ///< in the output's row
    uint32_t length;  ///< words of its own row
    Divider by_length;
  };
  Part parts[kMostInputs];
  uint32_t rows;
  uint32_t length;  ///< of the output's row
};

constexpr int kInFlight = 4;  ///< words a thread waits for together

/// Blocks of one y copy one input.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    join_rows(const __grid_constant__ Rows rows, Word* out) {
  const Rows::Part& part = rows.parts[blockIdx.y];
  const auto* in = static_cast<const Word*>(part.in);
  const uint64_t count = uint64_t{rows.rows} * part.length;
  constexpr uint64_t kPerBlock = uint64_t{kThreads} * kInFlight;
  for (uint64_t first = blockIdx.x * kPerBlock + threadIdx.x; first < count;
       first += gridDim.x * kPerBlock) {
    Word x[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j)
      if (first + j * kThreads < count) x[j] = in[first + j * kThreads];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const uint64_t i = first + j * kThreads;
      if (i >= count) break;
      const uint32_t row = part.by_length.quotient(static_cast<uint32_t>(i));
      const auto column = static_cast<uint32_t>(i) - row * part.length;
      out[uint64_t{row} * rows.length + part.begin + column] = x[j];
    }
  }
}

struct RowsState : KernelState {
  Rows rows{};
  size_t word = 1;
  bool aligned = false;  ///< all lie on 16-byte boundaries
  uint64_t longest = 0;  ///< words of the largest input
};

/// Axes that lie within the joined one in memory, counted in elements.
int64_t inner_of(const ConcatParams& p, const TensorSpec& out) {
  const auto axis = static_cast<int>(p.axis);
  return out.is_channels_last() ? channels_last_strides(out.shape)[axis]
                                : contiguous_strides(out.shape)[axis];
}

Support supports_rows(const ConcatParams&, const Specs& s) {
  if (s.in.size() > kMostInputs) return Support::no("there are more than 32 inputs");
  for (const TensorSpec& in : s.in)
    if (in.numel() > 0 && !in.lies_like(s.out[0]))
      return Support::no("an input is not dense in the output's memory format");
  if (s.out[0].numel() >= kNarrowLimit) return Support::no("there are 2^31 elements or more");
  return Support::yes();
}

std::shared_ptr<RowsState> prepare_rows(const ConcatParams& p, const Specs& s) {
  auto state = std::make_shared<RowsState>();
  const TensorSpec& out = s.out[0];
  const auto axis = static_cast<int>(p.axis);
  if (out.numel() == 0) return state;
  const auto element = static_cast<int64_t>(size_of(out.dtype));
  const int64_t inner = inner_of(p, out);
  // The widest word that all rows are whole numbers of.
  int64_t word = out.aligned ? 16 : element;
  for (const TensorSpec& in : s.in) {
    if (!in.aligned) word = element;
    while (in.shape[axis] * inner * element % word != 0) word /= 2;
  }
  state->word = static_cast<size_t>(word);
  state->aligned =
      out.aligned && std::ranges::all_of(s.in, [](const TensorSpec& in) { return in.aligned; });
  Rows& rows = state->rows;
  rows.length = static_cast<uint32_t>(out.shape[axis] * inner * element / word);
  rows.rows = static_cast<uint32_t>(out.numel() / (out.shape[axis] * inner));
  uint32_t begin = 0;
  for (size_t i = 0; i < s.in.size(); ++i) {
    const auto length = static_cast<uint32_t>(s.in[i].shape[axis] * inner * element / word);
    rows.parts[i] = {nullptr, begin, length, Divider(std::max(length, 1U))};
    begin += length;
    state->longest = std::max(state->longest, uint64_t{rows.rows} * length);
  }
  return state;
}

void run_rows(const ConcatParams&, const RowsState& state, const Call& c) {
  Rows rows = state.rows;
  for (size_t i = 0; i < c.in.size(); ++i) rows.parts[i].in = c.in[i].data;
  const dim3 grid(grid_for(static_cast<int64_t>(state.longest), int64_t{kThreads} * kInFlight,
                           c.encoder->multiprocessors()),
                  static_cast<unsigned>(c.in.size()));
  const auto launch = [&]<class Word>() {
    c.encoder->launch(join_rows<Word>, grid, kThreads, 0, rows, c.out[0].as<Word>());
  };
  if (state.word == 16 && state.aligned) return launch.operator()<uint4>();
  switch_words(static_cast<size_t>(state.word), launch);
}

/// Each input is copied to its part of the output.
struct PartsState : KernelState {
  std::vector<PartCopy> copies;
  std::vector<int64_t> offsets;  ///< of the parts, in bytes
};

std::shared_ptr<PartsState> prepare_parts(const ConcatParams& p, const Specs& s) {
  auto state = std::make_shared<PartsState>();
  const auto axis = static_cast<int>(p.axis);
  const auto element = static_cast<int64_t>(size_of(s.out[0].dtype));
  TensorSpec part = s.out[0];
  int64_t at = 0;
  for (const TensorSpec& in : s.in) {
    part.shape = in.shape;
    const int64_t offset = at * part.strides[axis] * element;
    part.aligned = s.out[0].aligned && offset % 16 == 0;
    state->copies.emplace_back(part, in);
    state->offsets.push_back(offset);
    at += in.shape[axis];
  }
  return state;
}

void run_parts(const ConcatParams&, const PartsState& state, const Call& c) {
  for (size_t i = 0; i < c.in.size(); ++i)
    state.copies[i].run(*c.encoder, c.out[0].as<std::byte>() + state.offsets[i], c.in[i].data);
}

}  // namespace

KernelList concat_cuda_kernels() {
  return {kernel<supports_rows, prepare_rows, run_rows>("rows"),
          kernel<supports_all<ConcatParams>, prepare_parts, run_parts>("parts")};
}

}  // namespace mica

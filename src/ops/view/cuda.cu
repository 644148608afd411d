#include <algorithm>

#include "mica/core/switch_bytes.h"
#include "mica/ops/flip/cuda_axis_map.h"
#include "mica/ops/view/cuda_part.h"
#include "mica/ops/view/view.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace cuda {
namespace {

constexpr int kThreads = 256;

template <class Word, int V>
__global__ void __launch_bounds__(kThreads)
    copy_part(const __grid_constant__ StridedLoop<2> loop, Word* part, const Word* in) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = first; i < loop.count; i += step) {
    int64_t at[2];
    loop.offsets(i, at);
    store_vec<V>(part + at[0], load_vec<V>(in + at[1]));
  }
  if (first < loop.tail) part[loop.count * V + first] = in[loop.count * V + first];
}

__global__ void __launch_bounds__(kThreads) clear_bytes(uint8_t* out, int64_t n) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t whole = is_aligned(out, 16) ? n / 16 : 0;
  for (int64_t i = first; i < whole; i += step) store_vec<16>(out + i * 16, Vec<uint8_t, 16>{});
  for (int64_t i = whole * 16 + first; i < n; i += step) out[i] = 0;
}

}  // namespace

PartCopy::PartCopy(const TensorSpec& part, const TensorSpec& in)
    : loop(strided_loop<2>(part.shape, {part.strides, in.strides})), element(size_of(part.dtype)) {
  // A repeated element is no vector.
  const bool dense = loop.rank > 0 && loop.stride[1][0] == 1;
  vectors = dense && part.aligned && in.aligned &&
            loop.vectorize(static_cast<int>(16 / element), {true, true});
}

void PartCopy::run(Encoder& encoder, void* part, const void* in) const {
  const unsigned grid =
      grid_for(std::max(loop.count, loop.tail), kThreads, encoder.multiprocessors());
  const auto launch = [&]<class Word>() {
    encoder.launch(vectors ? copy_part<Word, kVec16<Word>> : copy_part<Word, 1>, grid, kThreads, 0,
                   loop, static_cast<Word*>(part), static_cast<const Word*>(in));
  };
  switch_words(element, launch);
}

void clear_memory(Encoder& encoder, void* data, size_t bytes) {
  const auto n = static_cast<int64_t>(bytes);
  encoder.launch(clear_bytes, grid_for(n, int64_t{kThreads} * 16, encoder.multiprocessors()),
                 kThreads, 0, static_cast<uint8_t*>(data), n);
}

}  // namespace cuda

namespace {

using namespace mica::cuda;

/// A slice without gaps is its gradient's middle; zeros lie before and behind.
std::shared_ptr<MappedCopyState> prepare_middle(const SliceGradParams& p, const Specs& s) {
  AxisMaps maps;
  for (int i = 0; i < s.out[0].rank(); ++i) {
    AxisMap& map = maps[static_cast<size_t>(i)];
    if (i == p.slice.axis) map.add({.length = p.slice.start, .constant = true});
    map.add({.length = s.in[0].shape[i]});
    if (i == p.slice.axis) map.add({.length = s.out[0].shape[i] - p.slice.stop, .constant = true});
  }
  return std::make_shared<MappedCopyState>(s.out[0], s.in[0], maps);
}

Support supports_middle(const SliceGradParams& p, const Specs&) {
  return p.slice.step == 1 ? Support::yes() : Support::no("the slice has gaps");
}

void run_middle(const SliceGradParams&, const MappedCopyState& state, const Call& c) {
  state.run(c, {});
}

/// Zeros first, then dy in its place.
struct PartState : KernelState {
  PartState(const PartCopy& c, int64_t at) : copy(c), offset(at) {}
  PartCopy copy;
  int64_t offset;  ///< of the part, in bytes
};

/// dy's place in the output: `first` elements from its begin, with these strides.
std::shared_ptr<PartState> part_state(const Specs& s, int64_t first, const Strides& strides) {
  TensorSpec part = s.out[0];
  const int64_t offset = first * static_cast<int64_t>(size_of(part.dtype));
  part.shape = s.in[0].shape;
  part.strides = strides;
  part.aligned = part.aligned && offset % 16 == 0;
  return std::make_shared<PartState>(PartCopy(part, s.in[0]), offset);
}

std::shared_ptr<PartState> prepare_slice(const SliceGradParams& p, const Specs& s) {
  const auto axis = static_cast<int>(p.slice.axis);
  Strides strides = s.out[0].strides;
  strides[axis] *= p.slice.step;
  return part_state(s, p.slice.start * s.out[0].strides[axis], strides);
}

std::shared_ptr<PartState> prepare_diagonal(const DiagonalGradParams& p, const Specs& s) {
  const Strides& out = s.out[0].strides;
  const auto row = static_cast<int>(p.diagonal.axis1);
  const auto column = static_cast<int>(p.diagonal.axis2);
  Strides strides;
  for (int i = 0; i < out.rank(); ++i)
    if (i != row && i != column) strides.push_back(out[i]);
  strides.push_back(out[row] + out[column]);
  const int64_t down = std::max<int64_t>(-p.diagonal.offset, 0);
  const int64_t right = std::max<int64_t>(p.diagonal.offset, 0);
  return part_state(s, down * out[row] + right * out[column], strides);
}

template <class P>
void run_part(const P&, const PartState& state, const Call& c) {
  clear_memory(*c.encoder, c.out[0].data,
               static_cast<size_t>(c.out[0].numel()) * size_of(c.out[0].dtype()));
  state.copy.run(*c.encoder, c.out[0].as<std::byte>() + state.offset, c.in[0].data);
}

}  // namespace

KernelList slice_grad_cuda_kernels() {
  return {
      kernel<supports_middle, prepare_middle, run_middle>("mapped"),
      kernel<supports_all<SliceGradParams>, prepare_slice, run_part<SliceGradParams>>("cleared")};
}
KernelList diagonal_grad_cuda_kernels() {
  return {kernel<supports_all<DiagonalGradParams>, prepare_diagonal, run_part<DiagonalGradParams>>(
      "cleared")};
}

}  // namespace mica

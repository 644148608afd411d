#include "mica/core/switch_bytes.h"
#include "mica/ops/gather/cuda_indexed.cuh"

namespace mica::cuda {
namespace {

constexpr int kInFlight = 4;  ///< words a thread waits for together

template <class Word>
__global__ void __launch_bounds__(kIndexThreads)
    read_words(const __grid_constant__ StridedLoop<3> loop,
               const __grid_constant__ IndexReader index, Word* dense, const Word* table) {
  constexpr int64_t kPerBlock = int64_t{kIndexThreads} * kInFlight;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kPerBlock + threadIdx.x;
       first < loop.count; first += static_cast<int64_t>(gridDim.x) * kPerBlock) {
    int64_t to[kInFlight];
    int64_t from[kInFlight];
    Word x[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      from[j] = to[j] = -1;
      if (first + j * kIndexThreads >= loop.count) continue;
      int64_t at[3];
      loop.offsets(first + j * kIndexThreads, at);
      to[j] = at[0];
      const int64_t offset = index.offset(at[2]);
      if (offset >= 0) from[j] = at[1] + offset;
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) x[j] = from[j] >= 0 ? table[from[j]] : Word{};
#pragma unroll
    for (int j = 0; j < kInFlight; ++j)
      if (to[j] >= 0) dense[to[j]] = x[j];
  }
}

/// Makes elements `v` times as large; false, with nothing changed, where runs are not so long or do
/// not lie so.
bool widen(StridedLoop<3>& loop, int64_t& scale, int64_t v) {
  if (loop.rank == 0 || loop.stride[0][0] != 1 || loop.stride[1][0] != 1 ||
      loop.stride[2][0] != 0 || loop.size[0] % v != 0 || scale % v != 0)
    return false;
  for (int d = 1; d < loop.rank; ++d)
    if (loop.stride[0][d] % v != 0 || loop.stride[1][d] % v != 0) return false;
  scale /= v;
  loop.count /= v;
  loop.size[0] /= v;
  for (int d = 1; d < loop.rank; ++d)
    for (int k = 0; k < 2; ++k) loop.stride[k][d] /= v;
  if (loop.narrow) loop.divider[0] = Divider(static_cast<uint32_t>(loop.size[0]));
  return true;
}

}  // namespace

IndexReader index_reader(const TableAxis& axis, const Arg& index, int64_t scale, Fault* fault) {
  return {index.data, index.dtype(), axis, scale, fault};
}

ReadPlan::ReadPlan(const Indexed& how, const TensorSpec& dense, const TensorSpec& table)
    : loop(strided_loop<3>(how.shape, {how.dense, how.table, how.index})),
      word(size_of(dense.dtype)),
      scale(how.scale),
      aligned(dense.aligned && table.aligned) {
  if (loop.count == 0 || !aligned) return;
  for (size_t wide = 16; wide > word; wide /= 2) {
    if (!widen(loop, scale, static_cast<int64_t>(wide / word))) continue;
    word = wide;
    return;
  }
}

void ReadPlan::run(Encoder& encoder, IndexReader index, const void* table, void* dense) const {
  index.scale = scale;
  const unsigned grid =
      grid_for(loop.count, int64_t{kIndexThreads} * kInFlight, encoder.multiprocessors());
  const auto launch = [&]<class Word>() {
    encoder.launch(read_words<Word>, grid, kIndexThreads, 0, loop, index, static_cast<Word*>(dense),
                   static_cast<const Word*>(table));
  };
  // Elements of 16 bytes need not lie on such boundaries.
  if (word == 16 && aligned) return launch.operator()<uint4>();
  switch_words(static_cast<size_t>(word), launch);
}

}  // namespace mica::cuda

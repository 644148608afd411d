#include <algorithm>

#include "mica/ops/sparse/csr.h"
#include "mica/ops/sparse/cuda_matmul.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

enum In { kCrow, kCol, kValues, kDense };

/// The template arguments of multiply_rows.
struct BandState : KernelState {
  int vec = 1;
  int lanes = 1;
  int team = 32;
};

std::shared_ptr<BandState> prepare(const NoParams&, const Specs& s) {
  auto state = std::make_shared<BandState>();
  const TensorSpec& dense = s.in[kDense];
  const int64_t k = dense.shape[1];
  const auto v = static_cast<int>(16 / size_of(dense.dtype));
  if (k % v == 0 && dense.aligned && s.out[0].aligned) state->vec = v;
  const int64_t vectors = k / state->vec;
  const int64_t rows = std::max<int64_t>(s.out[0].shape[0], 1);
  const int64_t mean = s.in[kCol].numel() / rows;
  // A narrow band stays in the L1 cache, and leaves lanes for other entries of a row; short rows
  // have none for them.
  constexpr int64_t kShort = 16;
  if (k == 1) {
    state->team = mean < kShort ? 8 : 32;
  } else {
    state->lanes = mean < kShort && vectors > 4 ? 16 : 4;
    state->team = state->lanes == 16 ? 16 : 32;
  }
  return state;
}

template <class T, class I>
using MatmulKernel = void (*)(Matmul<T, I>);

template <class T, class I, int kVec>
MatmulKernel<T, I> kernel_of(const BandState& s) {
  if (s.lanes == 16) return multiply_rows<T, I, kVec, 16, 16>;
  if (s.lanes == 4) return multiply_rows<T, I, kVec, 4, 32>;
  if constexpr (kVec == 1)
    return s.team == 8 ? multiply_rows<T, I, 1, 1, 8> : multiply_rows<T, I, 1, 1, 32>;
  return nullptr;
}

template <class T, class I>
void multiply(const BandState& s, const Call& c) {
  const DevicePattern<I> a(MICA_PATTERN_TEXTS("csr_matmul"), c, c.in[kCrow], c.in[kCol],
                           c.in[kDense].shape()[0]);
  const int64_t k = c.out[0].shape()[1];
  const int64_t bands = std::max<int64_t>(ceil_div<int64_t>(k, s.lanes * s.vec), 1);
  const int64_t processors = c.encoder->multiprocessors();
  MatmulGrid grid{};
  grid.row_blocks = std::max<int64_t>(ceil_div<int64_t>(a.rows, kMatmulThreads / s.team), 1);
  // A row that keeps a team busy when all others are done is one for a block; so is any that is
  // long where there are few.
  constexpr int64_t kLong = 512;
  const bool few = grid.row_blocks * bands < 2 * processors;
  grid.most = std::max(kLong, few ? 0 : 16 * (a.entries / std::max<int64_t>(a.rows, 1)));
  if (a.entries > grid.most)
    grid.long_blocks =
        std::clamp<int64_t>(few ? a.rows : a.rows / kMatmulThreads, 1, 4 * processors);
  grid.blocks = (grid.row_blocks + grid.long_blocks) * bands;
  const Matmul<T, I> p{
      a, c.in[kValues].as<const T>(), c.in[kDense].as<const T>(), c.out[0].as<T>(), k, grid};
  const auto kernel = s.vec == 1 ? kernel_of<T, I, 1>(s) : kernel_of<T, I, kVec16<T>>(s);
  c.encoder->launch(kernel, grid_over(grid.blocks, 1), kMatmulThreads, 0, p);
}

void run(const NoParams&, const BandState& s, const Call& c) {
  cuda_switch_float(c.out[0].dtype(), "csr_matmul", [&]<class T>() {
    cuda_switch_index(c.in[kCrow].dtype(), [&]<class I>() { multiply<T, I>(s, c); });
  });
}

}  // namespace

KernelList csr_matmul_cuda_kernels() {
  return {kernel<supports_row_major<NoParams>, prepare, run>("bands")};
}

}  // namespace mica

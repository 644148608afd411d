#include <algorithm>
#include <initializer_list>

#include "mica/ops/sparse/csr.h"
#include "mica/ops/sparse/cuda_matmul.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

enum In { kCrow, kCol, kValues, kDense };

/// What the template arguments of multiply_rows are chosen by.
struct BandState : KernelState {
  int vec = 1;
  int lanes = 1;
  bool is_short = false;  ///< rows have few entries
};

std::shared_ptr<BandState> prepare(const NoParams&, const Specs& s) {
  auto state = std::make_shared<BandState>();
  const TensorSpec& dense = s.in[kDense];
  const int64_t k = dense.shape[1];
  const auto v = static_cast<int>(16 / size_of(dense.dtype));
  if (k % v == 0 && dense.aligned && s.out[0].aligned) state->vec = v;
  // A band is as wide as the dense matrix and at most 32 vectors; lanes that are left take other
  // entries of a row, of which short ones have none.
  constexpr int64_t kShort = 16;
  const int64_t vectors = k / state->vec;
  const auto lanes_from = [&](std::initializer_list<int> sizes) {
    for (const int lanes : sizes)
      if (vectors <= lanes) return lanes;
    return 32;
  };
  state->is_short = s.in[kCol].numel() < kShort * s.out[0].shape[0];
  if (state->vec == 1) {
    state->lanes = lanes_from({1, 8});
  } else {
    state->lanes = state->is_short && vectors <= 8 ? 4 : lanes_from({4, 8, 16});
  }
  return state;
}

template <class T, class I>
struct MatmulKernel {
  void (*run)(Matmul<T, I>);
  int team;

  template <int kVec, int kLanes, int kTeam>
  static MatmulKernel of() {
    return {multiply_rows<T, I, kVec, kLanes, kTeam>, kTeam};
  }
  static MatmulKernel of(const BandState& s) {
    constexpr int kV = kVec16<T>;
    if (s.vec == 1)
      return s.lanes > 8   ? of<1, 32, 32>()
             : s.lanes > 1 ? of<1, 8, 32>()
             : s.is_short  ? of<1, 1, 8>()
                           : of<1, 1, 32>();
    switch (s.lanes) {
      case 4:
        return s.is_short ? of<kV, 4, 8>() : of<kV, 4, 32>();
      case 8:
        return of<kV, 8, 32>();
      case 16:
        return s.is_short ? of<kV, 16, 16>() : of<kV, 16, 32>();
      default:
        return of<kV, 32, 32>();
    }
  }
};

template <class T, class I>
void multiply(const BandState& s, const Call& c) {
  const DevicePattern<I> a(MICA_PATTERN_TEXTS("csr_matmul"), c, c.in[kCrow], c.in[kCol],
                           c.in[kDense].shape()[0]);
  const int64_t k = c.out[0].shape()[1];
  const int64_t bands = std::max<int64_t>(ceil_div<int64_t>(k, s.lanes * s.vec), 1);
  const int64_t processors = c.encoder->multiprocessors();
  const auto kernel = MatmulKernel<T, I>::of(s);
  MatmulGrid grid{};
  grid.row_blocks = std::max<int64_t>(ceil_div<int64_t>(a.rows, kMatmulThreads / kernel.team), 1);
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
  c.encoder->launch(kernel.run, grid_over(grid.blocks, 1), kMatmulThreads, 0, p);
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

#include "mica/ops/elementwise/kernels.cuh"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

using namespace cuda;

/// Values move as they are: one kernel for each size serves all dtypes.
template <class Bits>
__global__ void __launch_bounds__(kElementThreads)
    choose(const __grid_constant__ StridedLoop<4> loop, Bits* out, const uint8_t* condition,
           const Bits* a, const Bits* b) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kElementThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x; i < loop.count;
       i += step) {
    int64_t at[4];
    loop.offsets(i, at);
    out[at[0]] = condition[at[1]] != 0 ? a[at[2]] : b[at[3]];
  }
}

template <class Bits>
void launch(const StridedLoop<4>& loop, const Call& c) {
  const unsigned grid = grid_for(loop.count, kElementThreads, c.encoder->multiprocessors());
  c.encoder->launch(choose<Bits>, grid, kElementThreads, 0, loop, c.out[0].as<Bits>(),
                    c.in[0].as<const uint8_t>(), c.in[1].as<const Bits>(),
                    c.in[2].as<const Bits>());
}

struct WhereState : KernelState {
  StridedLoop<4> loop;
};

std::shared_ptr<WhereState> prepare(const NoParams&, const Specs& s) {
  const Shape& shape = s.out[0].shape;
  std::array<Strides, 4> strides{s.out[0].strides};
  for (size_t k = 0; k < 3; ++k)
    strides[k + 1] = broadcast_strides(s.in[k].shape, s.in[k].strides, shape);
  auto state = std::make_shared<WhereState>();
  state->loop = strided_loop<4>(shape, strides);
  return state;
}

void run(const NoParams&, const WhereState& state, const Call& c) {
  switch (size_of(c.out[0].dtype())) {
    case 8:
      return launch<uint64_t>(state.loop, c);
    case 4:
      return launch<uint32_t>(state.loop, c);
    case 2:
      return launch<uint16_t>(state.loop, c);
    default:
      return launch<uint8_t>(state.loop, c);
  }
}

}  // namespace

KernelList where_cuda_kernels() {
  return {kernel<supports_all<NoParams>, prepare, run>("strided")};
}
KernelList clamp_cuda_kernels() { return elementwise_kernels<ClampParams, 1, Takes::all>(); }

}  // namespace mica

#include "mica/core/switch_bytes.h"
#include "mica/ops/elementwise/kernels.cuh"
#include "mica/ops/where/functors.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

using namespace cuda;

/// V values at p, or one that stands for all of them.
template <int V, class T>
__device__ Vec<T, V> load_each(const T* p, bool dense) {
  Vec<T, V> x;
  if (V == 1 || dense) {
    x = load_vec<V>(p);
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e) x.v[e] = *p;
  }
  return x;
}

/// Values move as they are: one kernel for each size serves all dtypes. V of them at a step.
template <class Bits, int V>
__global__ void __launch_bounds__(kElementThreads)
    choose(const __grid_constant__ StridedLoop<4> loop, Bits* out, const uint8_t* condition,
           const Bits* a, const Bits* b) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  const bool dense[] = {(loop.unit & 2U) != 0, (loop.unit & 4U) != 0, (loop.unit & 8U) != 0};
  if (first < loop.count) {
    int64_t at[4];
    loop.offsets(first, at);
    const Vec<uint8_t, V> c = load_each<V>(condition + at[1], dense[0]);
    Vec<Bits, V> x = load_each<V>(a + at[2], dense[1]);
    const Vec<Bits, V> y = load_each<V>(b + at[3], dense[2]);
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (c.v[e] == 0) x.v[e] = y.v[e];
    store_vec<V>(out + at[0], x);
  }
  if (V > 1 && first < loop.tail) {
    const int64_t i = loop.count * V + first;
    out[i] = condition[dense[0] ? i : 0] != 0 ? a[dense[1] ? i : 0] : b[dense[2] ? i : 0];
  }
}

struct WhereState : KernelState {
  StridedLoop<4> loop;
  bool vectorized = false;
};

template <class Bits>
void launch(const WhereState& state, const Call& c) {
  const auto kernel = state.vectorized ? choose<Bits, kVec16<Bits>> : choose<Bits, 1>;
  c.encoder->launch(kernel, grid_over(state.loop.count, kElementThreads), kElementThreads, 0,
                    state.loop, c.out[0].as<Bits>(), c.in[0].as<const uint8_t>(),
                    c.in[1].as<const Bits>(), c.in[2].as<const Bits>());
}

std::shared_ptr<WhereState> prepare(const NoParams&, const Specs& s) {
  const Shape& shape = s.out[0].shape;
  std::array<Strides, 4> strides{s.out[0].strides};
  std::array<bool, 4> aligned{s.out[0].aligned};
  for (size_t k = 0; k < 3; ++k) {
    strides[k + 1] = broadcast_strides(s.in[k].shape, s.in[k].strides, shape);
    aligned[k + 1] = s.in[k].aligned;
  }
  auto state = std::make_shared<WhereState>();
  state->loop = strided_loop<4>(shape, strides);
  state->vectorized =
      state->loop.vectorize(static_cast<int>(16 / size_of(s.out[0].dtype)), aligned);
  return state;
}

void run(const NoParams&, const WhereState& state, const Call& c) {
  switch_words(size_of(c.out[0].dtype()), [&]<class Bits>() { launch<Bits>(state, c); });
}

}  // namespace

KernelList where_cuda_kernels() {
  return {kernel<supports_all<NoParams>, prepare, run>("strided")};
}
KernelList clamp_cuda_kernels() { return elementwise_kernels<ClampParams, 1>(); }

}  // namespace mica

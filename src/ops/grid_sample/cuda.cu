#include "mica/ops/grid_sample/cuda_points.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

using namespace mica::cuda;
using namespace mica::cuda::grid_points;

template <class T, int V, int K>
__global__ void __launch_bounds__(kThreads)
    sample(const __grid_constant__ Layout l, GridSampleParams params, int shares,
           const Vec<T, V>* x, const T* grid, Vec<T, V>* y) {
  using C = Compute<T>;
  const Share mine(l, shares);
  if (mine.point >= l.all_points()) return;
  const PointTaps<K> taps(grid, mine.point, l, params);
  int pixel[K][K];
  C weight[K][K];
#pragma unroll
  for (int i = 0; i < K; ++i) {
#pragma unroll
    for (int j = 0; j < K; ++j) {
      pixel[i][j] = taps.pixel(i, j, l);
      weight[i][j] = static_cast<C>(taps.weight(i, j));
    }
  }
  const int64_t image = mine.point / l.points;
  const int64_t point = mine.point - image * l.points;
#pragma unroll(K == 1 ? 4 : K == 2 ? 2 : 1)
  for (int64_t channel = mine.share; channel < l.channels; channel += shares) {
    C sum[V] = {};
#pragma unroll
    for (int i = 0; i < K; ++i) {
#pragma unroll
      for (int j = 0; j < K; ++j) {
        if (pixel[i][j] >= 0) {
          const Vec<T, V> v = x[l.in_x(image, channel, pixel[i][j])];
#pragma unroll
          for (int e = 0; e < V; ++e) sum[e] += weight[i][j] * to_compute(v.v[e]);
        }
      }
    }
    Vec<T, V> result;
#pragma unroll
    for (int e = 0; e < V; ++e) result.v[e] = convert<T>(sum[e]);
    y[l.in_y(image, channel, point)] = result;
  }
}

Support supports(const GridSampleParams&, const Specs& specs) {
  return supports_layouts(specs, 0b01, 0b10);
}

struct SampleState : KernelState {
  explicit SampleState(const Layout& l) : layout(l), shares(shares_of(l)) {}
  Layout layout;
  int shares;
};

std::shared_ptr<SampleState> prepare(const GridSampleParams&, const Specs& s) {
  return std::make_shared<SampleState>(
      layout_of(s.in[0], s.in[1], s.out[0], s.in[0].aligned && s.out[0].aligned));
}

template <class T, int V>
void launch(const GridSampleParams& p, const SampleState& s, const Call& c) {
  with_taps(p.mode, [&]<int K>() {
    c.encoder->launch(sample<T, V, K>, blocks_of(s.layout, s.shares), kThreads, 0, s.layout, p,
                      s.shares, c.in[0].as<const Vec<T, V>>(), c.in[1].as<const T>(),
                      c.out[0].as<Vec<T, V>>());
  });
}

void run(const GridSampleParams& p, const SampleState& s, const Call& c) {
  if (c.out[0].numel() == 0) return;
  cuda_switch_float(c.out[0].dtype(), "grid_sample", [&]<class T>() {
    s.layout.vector > 1 ? launch<T, kVec16<T>>(p, s, c) : launch<T, 1>(p, s, c);
  });
}

}  // namespace

KernelList grid_sample_cuda_kernels() { return {kernel<supports, prepare, run>("points")}; }

}  // namespace mica

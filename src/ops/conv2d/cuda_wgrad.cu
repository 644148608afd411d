// The weight's gradient: a product that sums over all pixels, split into parts that are added in a
// fixed order.
#include <algorithm>

#include "mica/op/choices.h"
#include "mica/ops/conv2d/cuda_gather.cuh"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace direct {
namespace {

constexpr int64_t kWorkspaceLimit = int64_t{64} << 20;

struct WgradState : KernelState {
  int64_t splits = 1;
  int64_t per_split = 0;  ///< pixels of a part, a multiple of kDepth
};

/// partial (splits, groups, C_out/groups, taps) from dy and x. The plan is the forward pass's, with
/// dy as destination; rows of a tile are taps, columns are channels of dy.
template <class T, int TM, int TN>
__global__ void __launch_bounds__(kTileThreads<TM, TN>)
    wgrad_partial(GatherPlan p, int64_t splits, int64_t per_split, const T* dy, const T* x,
                  cuda::Compute<T>* partial) {
  using C = cuda::Compute<T>;
  constexpr int kThreads = kTileThreads<TM, TN>;
  __shared__ Tiles<C, TM, TN> tiles;
  __shared__ Tap taps[TM];
  __shared__ Pixel pixels[2][kDepth];  // of this step and the next
  const auto thread = static_cast<int>(threadIdx.x);
  const int64_t row_tiles = cuda::ceil_div<int64_t>(p.depth, TM);
  const int64_t col_tiles = cuda::ceil_div<int64_t>(p.channels, TN);
  // Threads are neighbours along what is contiguous in memory.
  const bool along_pixels = !p.channels_innermost;
  for (int64_t tile = blockIdx.x; tile < splits * p.groups * row_tiles * col_tiles;
       tile += gridDim.x) {
    const int64_t channel0 = tile % col_tiles * TN;
    const auto tap0 = static_cast<int>(tile / col_tiles % row_tiles * TM);
    const int64_t group = tile / col_tiles / row_tiles % p.groups;
    const int64_t split = tile / col_tiles / row_tiles / p.groups;
    const int64_t first = split * per_split;
    const int64_t end = first + per_split < p.pixels ? first + per_split : p.pixels;
    __syncthreads();  // the tile before is done with the tables
    if (thread < TM) taps[thread] = tap_at(p, tap0 + thread, group);
    if (thread < kDepth) pixels[0][thread] = pixel_at(p, first + thread, group);
    C sum[kEach][kEach] = {};
    int now = 0;
    for (int64_t k0 = first; k0 < end; k0 += kDepth, now ^= 1) {
      __syncthreads();
      for (int i = thread; i < TM * kDepth; i += kThreads) {
        const int r = tile_row<TM>(i, along_pixels);
        const int k = tile_depth<TM>(i, along_pixels);
        tiles.a[k][r] = gather(p, pixels[now][k], taps[r], x);
      }
      for (int i = thread; i < TN * kDepth; i += kThreads) {
        const int c = tile_row<TN>(i, along_pixels);
        const int k = tile_depth<TN>(i, along_pixels);
        const int64_t at = pixels[now][k].destination;
        tiles.b[k][c] = at >= 0 && channel0 + c < p.channels
                            ? cuda::to_compute(dy[at + (channel0 + c) * p.destination[1]])
                            : C(0);
      }
      if (thread < kDepth) pixels[now ^ 1][thread] = pixel_at(p, k0 + kDepth + thread, group);
      __syncthreads();
      multiply(tiles, sum);
    }
    const int tap = tap0 + thread_row<TM>();
    const int64_t channel = channel0 + thread_col<TM>();
    for (int j = 0; j < kEach && channel + j < p.channels; ++j) {
      C* to = partial + ((split * p.groups + group) * p.channels + channel + j) * p.depth;
      for (int i = 0; i < kEach && tap + i < p.depth; ++i) to[tap + i] = sum[i][j];
    }
  }
}

constexpr int kReduceColumns = 32;
constexpr int kReduceRows = 8;

/// Adds the parts: each row of threads takes every eighth, then the rows are added in order.
template <class T>
__global__ void add_parts(GatherPlan p, int64_t splits, const cuda::Compute<T>* partial, T* dw) {
  using C = cuda::Compute<T>;
  __shared__ C rows[kReduceRows][kReduceColumns];
  const int64_t total = p.groups * p.channels * p.depth;
  const int64_t index = int64_t{blockIdx.x} * kReduceColumns + threadIdx.x;
  C sum = 0;
  if (index < total)
    for (int64_t s = threadIdx.y; s < splits; s += kReduceRows) sum += partial[s * total + index];
  rows[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || index >= total) return;
  for (int r = 1; r < kReduceRows; ++r) sum += rows[r][threadIdx.x];
  const int64_t channel = index / p.depth % p.channels;
  const int64_t group = index / p.depth / p.channels;
  const Tap tap = tap_at(p, static_cast<int>(index % p.depth), group);
  dw[tap.weight + channel * p.weight_channel] = cuda::convert<T>(sum);
}

Support supports_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  const auto reason =
      too_large(conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape));
  return reason.empty() ? Support::yes() : Support::no(reason);
}

std::shared_ptr<WgradState> prepare_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape);
  auto state = std::make_shared<WgradState>();
  const int64_t elements = specs.out[0].numel();
  if (elements == 0) return state;
  const int64_t bytes =
      elements * static_cast<int64_t>(std::max(size_of(specs.out[0].dtype), sizeof(float)));
  const int sms = runtime(DeviceKind::cuda).encoder(specs.out[0].device.index)->multiprocessors();
  // Parts enough for 512 threads on every multiprocessor, but 128 pixels or more in each.
  const int64_t pixels = g.n * g.pixels();
  switch_tiles(g.window(), g.group_out(), g.groups * sms, sms, [&]<int TM, int TN>() {
    const int64_t tiles = g.groups * cuda::ceil_div<int64_t>(g.window(), TM) *
                          cuda::ceil_div<int64_t>(g.group_out(), TN);
    const int64_t wanted =
        cuda::ceil_div<int64_t>(int64_t{sms} * 512 / kTileThreads<TM, TN>, tiles);
    const int64_t most = std::min(pixels / 128, kWorkspaceLimit / bytes);
    state->splits = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(most, 1));
  });
  state->per_split =
      cuda::ceil_div<int64_t>(cuda::ceil_div(pixels, state->splits), kDepth) * kDepth;
  state->workspace_bytes = static_cast<size_t>(state->splits * bytes);
  return state;
}

void run_wgrad(const Conv2dGradParams& params, const WgradState& state, const Call& call) {
  if (call.out[0].numel() == 0) return;
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, call.in[1].shape(), params.shape);
  const GatherPlan p =
      plan_forward(g, call.in[1].strides(), call.out[0].strides(), call.in[0].strides());
  const int sms = call.encoder->multiprocessors();
  cuda::cuda_switch_float(call.out[0].dtype(), "conv2d_wgrad", [&]<class T>() {
    auto* partial = static_cast<cuda::Compute<T>*>(call.workspace);
    switch_tiles(p.depth, p.channels, p.groups * sms, sms, [&]<int TM, int TN>() {
      const int64_t tiles = state.splits * p.groups * cuda::ceil_div<int64_t>(p.depth, TM) *
                            cuda::ceil_div<int64_t>(p.channels, TN);
      call.encoder->launch(wgrad_partial<T, TM, TN>, cuda::grid_for(tiles, 1, sms),
                           kTileThreads<TM, TN>, 0, p, state.splits, state.per_split,
                           call.in[0].as<const T>(), call.in[1].as<const T>(), partial);
    });
    call.encoder->launch(
        add_parts<T>,
        static_cast<unsigned>(cuda::ceil_div<int64_t>(call.out[0].numel(), kReduceColumns)),
        dim3(kReduceColumns, kReduceRows), 0, p, state.splits, partial, call.out[0].as<T>());
  });
}

}  // namespace
}  // namespace direct

Kernel conv2d_wgrad_direct_kernel() {
  return timed_kernel<direct::supports_wgrad, direct::prepare_wgrad, direct::run_wgrad>("direct");
}

}  // namespace mica

#pragma once

// Bilinear resampling of channels_last images. A block makes a row of the result: where each column
// lies between two of the image is found once for all channels.
#include "mica/ops/pool/cuda_planes.cuh"
#include "mica/ops/upsample/cuda_taps.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica::cuda::resampling {

constexpr int kRowThreads = 256;
constexpr int64_t kMostColumns = 2048;  ///< of the result: what shared memory holds

template <class C>
struct Between {
  int index[2];
  C weight[2];

  __device__ Between(const Axis& axis, int o) {
    const Taps<2> taps(axis, o);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      index[k] = taps.index[k];
      weight[k] = static_cast<C>(taps.weight[k]);
    }
  }
};

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    bilinear_channels(const __grid_constant__ Axis rows, const __grid_constant__ Axis cols,
                      int channels, Divider by_channels, const T* __restrict__ x,
                      T* __restrict__ y) {
  using C = Compute<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const table = reinterpret_cast<Between<C>*>(memory);
  for (int i = static_cast<int>(threadIdx.x); i < cols.outputs; i += kRowThreads)
    table[i] = Between<C>(cols, i);
  const Between<C> row(rows, static_cast<int>(blockIdx.x));
  __syncthreads();
  const int64_t line = static_cast<int64_t>(cols.inputs) * channels;
  const T* const image = x + blockIdx.y * rows.inputs * line;
  const T* const upper = image + row.index[0] * line;
  const T* const lower = image + row.index[1] * line;
  const int count = cols.outputs * channels;
  T* const to = y + (static_cast<int64_t>(blockIdx.y) * rows.outputs + blockIdx.x) * count;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) {
    const auto column = static_cast<int>(by_channels.quotient(static_cast<uint32_t>(i)));
    const int channel = i - column * channels;
    const Between<C>& col = table[column];
    const int left = col.index[0] * channels + channel;
    const int right = col.index[1] * channels + channel;
    const C above =
        col.weight[0] * to_compute(upper[left]) + col.weight[1] * to_compute(upper[right]);
    const C below =
        col.weight[0] * to_compute(lower[left]) + col.weight[1] * to_compute(lower[right]);
    to[i] = convert<T>(row.weight[0] * above + row.weight[1] * below);
  }
}

struct ChannelsState : KernelState {
  explicit ChannelsState(const Upsample2dParams& p, const Shape& x)
      : rows(p.mode, x[2], p.size.h, p.scale_h, p.align_corners),
        cols(p.mode, x[3], p.size.w, p.scale_w, p.align_corners),
        by_channels(static_cast<uint32_t>(x[1])) {}
  Axis rows, cols;
  Divider by_channels;
};

inline Support supports_channels(const Upsample2dParams& p, const Specs& s) {
  constexpr int64_t kMostImages = 65535;
  if (p.mode != UpsampleMode::bilinear) return Support::no("the mode is not bilinear");
  if (!s.out[0].is_channels_last_dense() || s.out[0].numel() == 0)
    return Support::no("the result is not channels_last");
  const Shape& y = s.out[0].shape;
  if (y[0] > kMostImages || y[3] > kMostColumns || y[3] * y[1] >= kNarrowLimit)
    return Support::no("rows of the result are too long, or images too many");
  // Where channels are whole vectors the direct kernel reads and writes these.
  if (y[1] * static_cast<int64_t>(size_of(s.out[0].dtype)) % 16 == 0)
    return Support::no("channels are whole vectors");
  return Support::yes().with_channels_last(0b1);
}

inline std::shared_ptr<ChannelsState> prepare_channels(const Upsample2dParams& p, const Specs& s) {
  return std::make_shared<ChannelsState>(p, s.in[0].shape);
}

inline void run_channels(const Upsample2dParams&, const ChannelsState& s, const Call& c) {
  const Shape& y = c.out[0].shape();
  cuda_switch_float(c.out[0].dtype(), "upsample2d", [&]<class T>() {
    const dim3 grid(static_cast<unsigned>(y[2]), static_cast<unsigned>(y[0]));
    c.encoder->launch(bilinear_channels<T>, grid, kRowThreads,
                      static_cast<size_t>(y[3]) * sizeof(Between<Compute<T>>), s.rows, s.cols,
                      static_cast<int>(y[1]), s.by_channels, c.in[0].as<const T>(),
                      c.out[0].as<T>());
  });
}

}  // namespace mica::cuda::resampling

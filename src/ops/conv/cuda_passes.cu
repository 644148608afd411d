#include "mica/ops/conv/cuda_passes.h"

#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

constexpr int kThreads = 256;

template <class T, bool kLast, int V>
__global__ void add_bias(int64_t vectors, int64_t channels, int64_t plane, const T* bias,
                         int64_t bias_stride, T* y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < vectors; i += step) {
    const int64_t c = kLast ? i * V % channels : i * V / plane % channels;
    cuda::Vec<T, V> v = cuda::load_vec<V>(y + i * V);
#pragma unroll
    for (int j = 0; j < V; ++j)
      v.v[j] = cuda::convert<T>(cuda::to_compute(v.v[j]) +
                                cuda::to_compute(bias[(c + (kLast ? j : 0)) * bias_stride]));
    cuda::store_vec<V>(y + i * V, v);
  }
}

/// to (O, C, window) from (O, window, C).
template <class T>
__global__ void swap_channels(int64_t total, int64_t channels, int64_t window, const T* from,
                              T* to) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    const int64_t k = i % window;
    const int64_t c = i / window % channels;
    const int64_t o = i / window / channels;
    to[i] = from[(o * window + k) * channels + c];
  }
}

/// Elements of the axes after the first two.
int64_t window_of(const Shape& shape) {
  int64_t window = 1;
  for (int d = 2; d < shape.rank(); ++d) window *= shape[d];
  return window;
}

}  // namespace

void add_channel_bias(Encoder& encoder, const Arg& y, const Arg& bias) {
  const int64_t channels = y.shape()[1];
  const int64_t plane = window_of(y.shape());
  const bool last = !y.spec->is_contiguous();
  cuda::cuda_switch_float(y.dtype(), "convolution", [&]<class T>() {
    const auto launch = [&]<bool kLast, int V>() {
      const int64_t vectors = y.numel() / V;
      encoder.launch(add_bias<T, kLast, V>,
                     cuda::grid_for(vectors, kThreads, encoder.multiprocessors()), kThreads, 0,
                     vectors, channels, plane, bias.as<const T>(), bias.strides()[0], y.as<T>());
    };
    constexpr int kWidth = cuda::kVec16<T>;
    const bool wide = cuda::is_aligned(y.data, 16) && (last ? channels : plane) % kWidth == 0;
    if (last)
      wide ? launch.template operator()<true, kWidth>() : launch.template operator()<true, 1>();
    else
      wide ? launch.template operator()<false, kWidth>() : launch.template operator()<false, 1>();
  });
}

void weight_to_row_major(Encoder& encoder, const void* from, const Arg& to) {
  cuda::cuda_switch_float(to.dtype(), "convolution", [&]<class T>() {
    encoder.launch(swap_channels<T>,
                   cuda::grid_for(to.numel(), kThreads, encoder.multiprocessors()), kThreads, 0,
                   to.numel(), to.shape()[1], window_of(to.shape()), static_cast<const T*>(from),
                   to.as<T>());
  });
}

}  // namespace mica

// Convolution over three axes without a library, for what cuDNN refuses: any strides, f64, sizes
// that it has no plan for. One thread per element of y or dx, one block per element of dw; each sum
// has one order.
#include "mica/op/choices.h"
#include "mica/ops/conv3d/cuda_kernels.h"
#include "mica/ops/conv3d/geometry.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using cuda::Compute;

constexpr int kThreads = 256;
constexpr int kSumThreads = 128;

/// One axis of the windows.
struct Axis {
  int64_t in;
  int64_t kernel;
  int64_t out;
  int64_t stride;
  int64_t padding;
  int64_t dilation;

  /// Where tap k of the window of output y lies in the input; -1 outside.
  __device__ int64_t input_of(int64_t y, int64_t k) const {
    const int64_t x = y * stride - padding + k * dilation;
    return x < in ? x : -1;
  }
  /// The output whose window has tap k at input x; -1 if there is none.
  __device__ int64_t output_of(int64_t x, int64_t k) const {
    const int64_t start = x + padding - k * dilation;
    if (start < 0 || start % stride != 0) return -1;
    const int64_t y = start / stride;
    return y < out ? y : -1;
  }
};

struct Direct {
  int64_t n;
  int64_t c;
  int64_t o;
  int64_t group_in;
  int64_t group_out;
  Axis axis[3];
  int64_t x[5];  // strides, in elements
  int64_t w[5];
  int64_t y[5];
};

/// Takes the last coordinate off a row-major index.
__device__ int64_t take(int64_t& index, int64_t size) {
  const int64_t at = index % size;
  index /= size;
  return at;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    convolve(Direct p, int64_t total, const T* x, const T* w, const T* bias, int64_t bias_stride,
             T* y) {
  using C = Compute<T>;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < total; i += step) {
    int64_t rest = i;
    const int64_t c2 = take(rest, p.axis[2].out);
    const int64_t c1 = take(rest, p.axis[1].out);
    const int64_t c0 = take(rest, p.axis[0].out);
    const int64_t o = take(rest, p.o);
    const T* image = x + rest * p.x[0] + o / p.group_out * p.group_in * p.x[1];
    const T* weight = w + o * p.w[0];
    C sum = bias ? cuda::to_compute(bias[o * bias_stride]) : C(0);
    for (int64_t k0 = 0; k0 < p.axis[0].kernel; ++k0) {
      const int64_t x0 = p.axis[0].input_of(c0, k0);
      for (int64_t k1 = 0; x0 >= 0 && k1 < p.axis[1].kernel; ++k1) {
        const int64_t x1 = p.axis[1].input_of(c1, k1);
        for (int64_t k2 = 0; x1 >= 0 && k2 < p.axis[2].kernel; ++k2) {
          const int64_t x2 = p.axis[2].input_of(c2, k2);
          if (x2 < 0) continue;
          const T* from = image + x0 * p.x[2] + x1 * p.x[3] + x2 * p.x[4];
          const T* tap = weight + k0 * p.w[2] + k1 * p.w[3] + k2 * p.w[4];
          for (int64_t c = 0; c < p.group_in; ++c)
            sum += cuda::to_compute(from[c * p.x[1]]) * cuda::to_compute(tap[c * p.w[1]]);
        }
      }
    }
    y[rest * p.y[0] + o * p.y[1] + c0 * p.y[2] + c1 * p.y[3] + c2 * p.y[4]] = cuda::convert<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_gradient(Direct p, int64_t total, const T* dy, const T* w, T* dx) {
  using C = Compute<T>;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < total; i += step) {
    int64_t rest = i;
    const int64_t c2 = take(rest, p.axis[2].in);
    const int64_t c1 = take(rest, p.axis[1].in);
    const int64_t c0 = take(rest, p.axis[0].in);
    const int64_t c = take(rest, p.c);
    const int64_t first = c / p.group_in * p.group_out;
    const T* image = dy + rest * p.y[0] + first * p.y[1];
    const T* weight = w + first * p.w[0] + c % p.group_in * p.w[1];
    C sum = 0;
    for (int64_t k0 = 0; k0 < p.axis[0].kernel; ++k0) {
      const int64_t y0 = p.axis[0].output_of(c0, k0);
      for (int64_t k1 = 0; y0 >= 0 && k1 < p.axis[1].kernel; ++k1) {
        const int64_t y1 = p.axis[1].output_of(c1, k1);
        for (int64_t k2 = 0; y1 >= 0 && k2 < p.axis[2].kernel; ++k2) {
          const int64_t y2 = p.axis[2].output_of(c2, k2);
          if (y2 < 0) continue;
          const T* from = image + y0 * p.y[2] + y1 * p.y[3] + y2 * p.y[4];
          const T* tap = weight + k0 * p.w[2] + k1 * p.w[3] + k2 * p.w[4];
          for (int64_t o = 0; o < p.group_out; ++o)
            sum += cuda::to_compute(from[o * p.y[1]]) * cuda::to_compute(tap[o * p.w[0]]);
        }
      }
    }
    dx[rest * p.x[0] + c * p.x[1] + c0 * p.x[2] + c1 * p.x[3] + c2 * p.x[4]] =
        cuda::convert<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kSumThreads)
    sum_windows(Direct p, int64_t total, const T* dy, const T* x, T* dw) {
  using C = Compute<T>;
  const int64_t pixels = p.n * p.axis[0].out * p.axis[1].out * p.axis[2].out;
  for (int64_t i = blockIdx.x; i < total; i += gridDim.x) {
    int64_t rest = i;
    const int64_t k2 = take(rest, p.axis[2].kernel);
    const int64_t k1 = take(rest, p.axis[1].kernel);
    const int64_t k0 = take(rest, p.axis[0].kernel);
    const int64_t c = take(rest, p.group_in);
    const T* image = x + (rest / p.group_out * p.group_in + c) * p.x[1];
    const T* gradient = dy + rest * p.y[1];
    C sum = 0;
    for (int64_t j = threadIdx.x; j < pixels; j += kSumThreads) {
      int64_t at = j;
      const int64_t y2 = take(at, p.axis[2].out);
      const int64_t y1 = take(at, p.axis[1].out);
      const int64_t y0 = take(at, p.axis[0].out);
      const int64_t x0 = p.axis[0].input_of(y0, k0);
      const int64_t x1 = p.axis[1].input_of(y1, k1);
      const int64_t x2 = p.axis[2].input_of(y2, k2);
      if (x0 < 0 || x1 < 0 || x2 < 0) continue;
      sum += cuda::to_compute(gradient[at * p.y[0] + y0 * p.y[2] + y1 * p.y[3] + y2 * p.y[4]]) *
             cuda::to_compute(image[at * p.x[0] + x0 * p.x[2] + x1 * p.x[3] + x2 * p.x[4]]);
    }
    sum = cuda::block_sum<kSumThreads>(sum);
    if (threadIdx.x == 0)
      dw[rest * p.w[0] + c * p.w[1] + k0 * p.w[2] + k1 * p.w[3] + k2 * p.w[4]] =
          cuda::convert<T>(sum);
  }
}

Direct direct_of(const Conv3dGeometry& g, const Arg& x, const Arg& w, const Arg& y) {
  Direct p{};
  p.n = g.n;
  p.c = g.c;
  p.o = g.o;
  p.group_in = g.group_in();
  p.group_out = g.group_out();
  p.axis[0] = {g.in.d, g.kernel.d, g.out.d, g.stride.d, g.padding.d, g.dilation.d};
  p.axis[1] = {g.in.h, g.kernel.h, g.out.h, g.stride.h, g.padding.h, g.dilation.h};
  p.axis[2] = {g.in.w, g.kernel.w, g.out.w, g.stride.w, g.padding.w, g.dilation.w};
  for (int d = 0; d < 5; ++d) {
    p.x[d] = x.strides()[d];
    p.w[d] = w.strides()[d];
    p.y[d] = y.strides()[d];
  }
  return p;
}

void run(const Conv3dParams& params, const Call& call) {
  const Arg& bias = call.in[2];
  const Arg& y = call.out[0];
  const Direct p =
      direct_of(conv3d_geometry("conv3d", params, call.in[0].shape(), call.in[1].shape()),
                call.in[0], call.in[1], y);
  cuda::cuda_switch_float(y.dtype(), "conv3d", [&]<class T>() {
    call.encoder->launch(convolve<T>,
                         cuda::grid_for(y.numel(), kThreads, call.encoder->multiprocessors()),
                         kThreads, 0, p, y.numel(), call.in[0].as<const T>(),
                         call.in[1].as<const T>(), bias.defined() ? bias.as<const T>() : nullptr,
                         bias.defined() ? bias.strides()[0] : 0, y.as<T>());
  });
}

void run_dgrad(const Conv3dGradParams& params, const Call& call) {
  const Arg& dx = call.out[0];
  const Direct p =
      direct_of(conv3d_geometry("conv3d_dgrad", params.conv, params.shape, call.in[1].shape()), dx,
                call.in[1], call.in[0]);
  cuda::cuda_switch_float(dx.dtype(), "conv3d_dgrad", [&]<class T>() {
    call.encoder->launch(
        gather_gradient<T>, cuda::grid_for(dx.numel(), kThreads, call.encoder->multiprocessors()),
        kThreads, 0, p, dx.numel(), call.in[0].as<const T>(), call.in[1].as<const T>(), dx.as<T>());
  });
}

void run_wgrad(const Conv3dGradParams& params, const Call& call) {
  const Arg& dw = call.out[0];
  const Direct p =
      direct_of(conv3d_geometry("conv3d_wgrad", params.conv, call.in[1].shape(), params.shape),
                call.in[1], dw, call.in[0]);
  cuda::cuda_switch_float(dw.dtype(), "conv3d_wgrad", [&]<class T>() {
    call.encoder->launch(
        sum_windows<T>, cuda::grid_for(dw.numel(), 1, call.encoder->multiprocessors()), kSumThreads,
        0, p, dw.numel(), call.in[0].as<const T>(), call.in[1].as<const T>(), dw.as<T>());
  });
}

}  // namespace

Kernel conv3d_direct_kernel() { return timed_kernel<supports_all<Conv3dParams>, run>("direct"); }
Kernel conv3d_dgrad_direct_kernel() {
  return timed_kernel<supports_all<Conv3dGradParams>, run_dgrad>("direct");
}
Kernel conv3d_wgrad_direct_kernel() {
  return timed_kernel<supports_all<Conv3dGradParams>, run_wgrad>("direct");
}

}  // namespace mica

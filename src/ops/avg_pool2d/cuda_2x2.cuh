#pragma once

// Averages of windows of 2 by 2 that lie side by side and cover the image. A thread has 16 bytes of
// two rows of the image, or the channels of four pixels: everything is read and written once, in
// whole vectors.
#include "mica/ops/avg_pool2d/windows.h"
#include "mica/ops/pool/cuda_planes.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica::cuda::average_2x2 {

constexpr int kThreads = 256;

/// Runs f(index) for each step of a loop, one to a thread.
template <class F>
__device__ void for_steps(const PlaneLoop& loop, F&& f) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < loop.count;
       i += stride)
    f(i);
}

/// Row-major images: a step is half a vector of results. `scale` is what each element counts for.
template <class T>
__global__ void __launch_bounds__(kThreads)
    average_pixels(const __grid_constant__ PlaneLoop steps, Compute<T> scale,
                   const T* __restrict__ x, T* __restrict__ y) {
  constexpr int V = kVec16<T>;
  for_steps(steps, [&](int64_t i) {
    const PlaneLoop::Place o = steps.place(i);
    const int64_t width = static_cast<int64_t>(steps.columns) * V;
    const T* from = x + (o.plane * steps.rows + o.h) * 2 * width + static_cast<int64_t>(o.w) * V;
    const Vec<T, V> upper = load_vec<V>(from);
    const Vec<T, V> lower = load_vec<V>(from + width);
    Compute<T> mean[V / 2];
#pragma unroll
    for (int e = 0; e < V / 2; ++e)
      mean[e] = (to_compute(upper.v[2 * e]) + to_compute(upper.v[2 * e + 1]) +
                 to_compute(lower.v[2 * e]) + to_compute(lower.v[2 * e + 1])) *
                scale;
    store_vec<V / 2>(y + i * (V / 2), pack<T>(mean));
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    spread_pixels(const __grid_constant__ PlaneLoop steps, Compute<T> scale,
                  const T* __restrict__ dy, T* __restrict__ dx) {
  constexpr int V = kVec16<T>;
  for_steps(steps, [&](int64_t i) {
    const PlaneLoop::Place o = steps.place(i);
    const int64_t width = static_cast<int64_t>(steps.columns) * V;
    T* to = dx + (o.plane * steps.rows + o.h) * 2 * width + static_cast<int64_t>(o.w) * V;
    const Vec<T, V / 2> grads = load_vec<V / 2>(dy + i * (V / 2));
    Compute<T> shares[V];
#pragma unroll
    for (int e = 0; e < V; ++e) shares[e] = to_compute(grads.v[e / 2]) * scale;
    const Vec<T, V> result = pack<T>(shares);
    store_vec<V>(to, result);
    store_vec<V>(to + width, result);
  });
}

/// channels_last images: a step is a vector of one result's channels. The first of its four pixels,
/// in vectors.
__device__ inline int64_t first_pixel(const PlaneLoop& steps, const PlaneLoop::Place& o) {
  return ((o.plane * steps.rows + o.h) * 4 * steps.columns + int64_t{o.w} * 2) * steps.inner + o.i;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    average_channels(const __grid_constant__ PlaneLoop steps, Compute<T> scale,
                     const T* __restrict__ x, T* __restrict__ y) {
  constexpr int V = kVec16<T>;
  for_steps(steps, [&](int64_t i) {
    const int64_t width = int64_t{2} * steps.columns * steps.inner;
    const T* from = x + first_pixel(steps, steps.place(i)) * V;
    Vec<T, V> pixels[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      pixels[k] = load_vec<V>(from + (k / 2 * width + k % 2 * steps.inner) * V);
    Compute<T> mean[V];
#pragma unroll
    for (int e = 0; e < V; ++e)
      mean[e] = (to_compute(pixels[0].v[e]) + to_compute(pixels[1].v[e]) +
                 to_compute(pixels[2].v[e]) + to_compute(pixels[3].v[e])) *
                scale;
    store_vec<V>(y + i * V, pack<T>(mean));
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    spread_channels(const __grid_constant__ PlaneLoop steps, Compute<T> scale,
                    const T* __restrict__ dy, T* __restrict__ dx) {
  constexpr int V = kVec16<T>;
  for_steps(steps, [&](int64_t i) {
    const int64_t width = int64_t{2} * steps.columns * steps.inner;
    T* to = dx + first_pixel(steps, steps.place(i)) * V;
    const Vec<T, V> grads = load_vec<V>(dy + i * V);
    Compute<T> shares[V];
#pragma unroll
    for (int e = 0; e < V; ++e) shares[e] = to_compute(grads.v[e]) * scale;
    const Vec<T, V> result = pack<T>(shares);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      store_vec<V>(to + (k / 2 * width + k % 2 * steps.inner) * V, result);
  });
}

struct State : KernelState {
  State(const PlaneLoop& l, double s, bool last) : loop(l), scale(s), channels_last(last) {}
  PlaneLoop loop;
  double scale;
  bool channels_last;
};

/// `image` is what the windows lie over, `result` the averages.
inline Support support(const Pool2dGeometry& g, const TensorSpec& image, const TensorSpec& in,
                       const TensorSpec& out) {
  const auto pairs = [](int64_t k, int64_t stride, int64_t padding, int64_t size, int64_t outputs) {
    return k == 2 && stride == 2 && padding == 0 && size == 2 * outputs;
  };
  if (!pairs(g.kernel.h, g.stride.h, g.padding.h, g.h, g.oh) ||
      !pairs(g.kernel.w, g.stride.w, g.padding.w, g.w, g.ow))
    return Support::no("windows are not 2 by 2, side by side over the whole image");
  if (image.dtype == DType::f64) return Support::no("f64 is not compiled for it");
  if (!in.aligned || !out.aligned) return Support::no("memory is not aligned");
  const auto vector = static_cast<int64_t>(16 / size_of(image.dtype));
  if ((out.is_contiguous() ? g.w : g.c) % vector != 0)
    return Support::no("rows, or channels, are not whole 16-byte vectors");
  return support_for(format_of({&in, &out}), format_of({&out}), 0b1);
}

inline std::shared_ptr<State> plan(const Pool2dGeometry& g, const AvgPool2dParams& p,
                                   const Specs& s) {
  const bool last = !s.out[0].is_contiguous();
  const auto vector = static_cast<int64_t>(16 / size_of(s.out[0].dtype));
  const double scale = 1.0 / static_cast<double>(p.divisor_override != 0 ? p.divisor_override : 4);
  return std::make_shared<State>(
      last ? PlaneLoop(g.n, g.oh, g.ow, g.c / vector) : PlaneLoop(g.n * g.c, g.oh, g.w / vector, 1),
      scale, last);
}

inline Support supports(const AvgPool2dParams& p, const Specs& s) {
  const Pool2dGeometry g = average_geometry("avg_pool2d", p, s.in[0].shape);
  return support(g, s.in[0], s.in[0], s.out[0]);
}
inline std::shared_ptr<State> prepare(const AvgPool2dParams& p, const Specs& s) {
  return plan(average_geometry("avg_pool2d", p, s.in[0].shape), p, s);
}
inline Support supports_grad(const AvgPool2dGradParams& p, const Specs& s) {
  return support(average_geometry("avg_pool2d_grad", p.pool, p.shape), s.out[0], s.in[0], s.out[0]);
}
inline std::shared_ptr<State> prepare_grad(const AvgPool2dGradParams& p, const Specs& s) {
  return plan(average_geometry("avg_pool2d_grad", p.pool, p.shape), p.pool, s);
}

template <class T>
void launch(void (*kernel)(PlaneLoop, Compute<T>, const T*, T*), const State& s, const Call& c) {
  c.encoder->launch(kernel, grid_over(s.loop.count, kThreads), kThreads, 0, s.loop, s.scale,
                    c.in[0].as<const T>(), c.out[0].as<T>());
}

template <class F>
void switch_type(DType dtype, F&& f) {
  if (dtype == DType::f32) return f.template operator()<float>();
  if (dtype == DType::f16) return f.template operator()<__half>();
  f.template operator()<__nv_bfloat16>();
}

inline void run(const AvgPool2dParams&, const State& s, const Call& c) {
  switch_type(c.out[0].dtype(), [&]<class T>() {
    launch<T>(s.channels_last ? average_channels<T> : average_pixels<T>, s, c);
  });
}
inline void run_grad(const AvgPool2dGradParams&, const State& s, const Call& c) {
  switch_type(c.out[0].dtype(), [&]<class T>() {
    launch<T>(s.channels_last ? spread_channels<T> : spread_pixels<T>, s, c);
  });
}

}  // namespace mica::cuda::average_2x2

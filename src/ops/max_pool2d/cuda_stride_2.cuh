#pragma once

// Max pooling of the usual windows, two apart: 2 by 2, or 3 by 3 with a padding of 1. A thread has
// 16 bytes of two rows of the image (pairs of pixels, or the channels of four), so that it reads
// whole windows once and writes whole vectors.
#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/max_pool2d/geometry.h"
#include "mica/ops/pool/cuda_planes.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica::cuda::pool_stride_2 {

constexpr int kThreads = 256;

struct Sizes {
  int h, w, oh, ow;
};

/// Runs f(index) for each step of a loop, one to a thread.
template <class F>
__device__ void for_steps(const PlaneLoop& loop, F&& f) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < loop.count;
       i += stride)
    f(i);
}

/// Row-major images: half a vector of results for each step. Places beyond the edge are read at the
/// edge, which belongs to the window too.
template <class T, int K>
__global__ void __launch_bounds__(kThreads)
    pool_pixels(const __grid_constant__ PlaneLoop outputs, Sizes size, const T* __restrict__ x,
                T* __restrict__ y, int* __restrict__ positions) {
  constexpr int V = kVec16<T>;
  constexpr int kResults = V / 2;
  constexpr int kBefore = K - 2;  // places of a window before its pair
  using C = Compute<T>;
  for_steps(outputs, [&](int64_t i) {
    const PlaneLoop::Place o = outputs.place(i);
    const T* plane = x + o.plane * size.h * size.w;
    const int left = o.w > 0 ? 1 : 0;
    Vec<T, V> row[K];
    T before[K];
    int start[K];
#pragma unroll
    for (int r = 0; r < K; ++r) {
      start[r] = min(max(2 * o.h - kBefore + r, 0), size.h - 1) * size.w + o.w * V;
      row[r] = load_vec<V>(plane + start[r]);
      if constexpr (K == 3) before[r] = plane[start[r] - left];
    }
    Vec<T, kResults> values;
    Vec<int, kResults> places;
#pragma unroll
    for (int e = 0; e < kResults; ++e) {
      C largest = 0;
      int place = 0;
#pragma unroll
      for (int k = 0; k < K * K; ++k) {
        const int r = k / K;
        const int column = 2 * e - kBefore + k % K;
        const C value = to_compute(column < 0 ? before[r] : row[r].v[max(column, 0)]);
        // NaN is the largest, the first of equals stays.
        if (k == 0 || (!(value <= largest) && !isnan(largest))) {
          largest = value;
          place = start[r] + (column < 0 ? -left : column);
        }
      }
      values.v[e] = convert<T>(largest);
      places.v[e] = place;
    }
    store_vec<kResults>(y + i * kResults, values);
    store_vec<kResults>(positions + i * kResults, places);
  });
}

/// Row-major images: two rows of a vector of dx for each step. The windows over them are K - 1 rows
/// of half a vector, and for K = 3 the next one to the right.
template <class T, int K>
__global__ void __launch_bounds__(kThreads)
    gather_pixels(const __grid_constant__ PlaneLoop tiles, Sizes size, const T* __restrict__ dy,
                  const int* __restrict__ positions, T* __restrict__ dx) {
  constexpr int V = kVec16<T>;
  constexpr int kResults = V / 2;
  constexpr int kRows = K - 1;
  using C = Compute<T>;
  for_steps(tiles, [&](int64_t i) {
    const PlaneLoop::Place t = tiles.place(i);
    const int first = 2 * t.h * size.w + t.w * V;
    const bool more = K == 3 && (t.w + 1) * kResults < size.ow;
    Vec<T, kResults> grads[kRows];
    Vec<int, kResults> places[kRows];
    T next_grad[kRows];
    int next_place[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool present = t.h + r < size.oh;
      const int64_t from = (t.plane * size.oh + t.h + r) * size.ow + t.w * kResults;
      grads[r] = present ? load_vec<kResults>(dy + from) : Vec<T, kResults>{};
      places[r] = present ? load_vec<kResults>(positions + from) : Vec<int, kResults>{};
      next_grad[r] = present && more ? dy[from + kResults] : convert<T>(C(0));
      next_place[r] = present && more ? positions[from + kResults] : 0;
    }
    C sum[2][V] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int e = 0; e < kResults + kRows - 1; ++e) {
        const bool next = e == kResults;
        const C grad = to_compute(next ? next_grad[r] : grads[r].v[min(e, kResults - 1)]);
        const int place = (next ? next_place[r] : places[r].v[min(e, kResults - 1)]) - first;
      // The second row of windows reaches the lower row of pixels alone.
#pragma unroll
        for (int a = r; a < 2; ++a)
#pragma unroll
          for (int b = max(2 * e - K + 2, 0); b < min(2 * e + 2, V); ++b)
            sum[a][b] += place == a * size.w + b ? grad : C(0);
      }
    T* to = dx + t.plane * size.h * size.w + first;
#pragma unroll
    for (int a = 0; a < 2; ++a) {
      if (2 * t.h + a >= size.h) break;
      Vec<T, V> result;
#pragma unroll
      for (int b = 0; b < V; ++b) result.v[b] = convert<T>(sum[a][b]);
      store_vec<V>(to + a * size.w, result);
    }
  });
}

/// channels_last images: a vector of channels of 2 by 2 pixels for each step.
template <class T, int K>
__global__ void __launch_bounds__(kThreads)
    gather_channels(const __grid_constant__ PlaneLoop tiles, Sizes size, const T* __restrict__ dy,
                    const int* __restrict__ positions, T* __restrict__ dx) {
  constexpr int V = kVec16<T>;
  constexpr int kRows = K - 1;  // and columns of windows over the four
  using C = Compute<T>;
  for_steps(tiles, [&](int64_t i) {
    const PlaneLoop::Place t = tiles.place(i);
    const int first = 2 * t.h * size.w + 2 * t.w;
    Vec<T, V> grads[kRows * kRows];
    Vec<int, 4> places[kRows * kRows][V / 4];
#pragma unroll
    for (int k = 0; k < kRows * kRows; ++k) {
      const int oh = t.h + k / kRows;
      const int ow = t.w + k % kRows;
      const bool present = oh < size.oh && ow < size.ow;
      const int64_t from = (((t.plane * size.oh + oh) * size.ow + ow) * tiles.inner + t.i) * V;
      grads[k] = present ? load_vec<V>(dy + from) : Vec<T, V>{};
#pragma unroll
      for (int q = 0; q < V / 4; ++q)
        places[k][q] = present ? load_vec<4>(positions + from + 4 * q) : Vec<int, 4>{};
    }
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const int a = p / 2;
      const int b = p % 2;
      if (2 * t.h + a >= size.h || 2 * t.w + b >= size.w) continue;
      const int here = first + a * size.w + b;
      Vec<T, V> result;
#pragma unroll
      for (int e = 0; e < V; ++e) {
        C sum = 0;
        // The windows that begin after the pair reach its second pixel alone.
#pragma unroll
        for (int k = 0; k < kRows * kRows; ++k)
          if (k / kRows <= a && k % kRows <= b)
            sum += places[k][e / 4].v[e % 4] == here ? to_compute(grads[k].v[e]) : C(0);
        result.v[e] = convert<T>(sum);
      }
      const int64_t pixel = t.plane * size.h * size.w + here;
      store_vec<V>(dx + (pixel * tiles.inner + t.i) * V, result);
    }
  });
}

struct State : KernelState {
  State(const PlaneLoop& l, const Pool2dGeometry& g)
      : loop(l),
        size{static_cast<int>(g.h), static_cast<int>(g.w), static_cast<int>(g.oh),
             static_cast<int>(g.ow)},
        kernel(g.kernel.h) {}
  PlaneLoop loop;
  Sizes size;
  int64_t kernel;
  bool channels = false;  ///< channels_last
};

/// Why not, or nothing. Row-major images need rows of whole vectors, and half as many results.
inline std::string refusal(const Pool2dGeometry& g, const TensorSpec& image) {
  const auto fits = [](int64_t k, int64_t stride, int64_t padding, int64_t dilation) {
    return stride == 2 && dilation == 1 && (k == 2 || k == 3) && padding == k - 2;
  };
  if (!fits(g.kernel.h, g.stride.h, g.padding.h, g.dilation.h) ||
      !fits(g.kernel.w, g.stride.w, g.padding.w, g.dilation.w) || g.kernel.h != g.kernel.w)
    return "windows are neither 2 by 2 nor 3 by 3 with a padding of 1, two apart";
  if (image.dtype == DType::f64) return "f64 is not compiled for it";
  const auto vector = static_cast<int64_t>(16 / size_of(image.dtype));
  if (image.is_contiguous())
    return g.w % vector == 0 && 2 * g.ow == g.w ? "" : "rows are not whole 16-byte vectors";
  return g.c % vector == 0 ? "" : "channels are not whole 16-byte vectors";
}

inline bool all_aligned(std::initializer_list<const TensorSpec*> specs) {
  return std::all_of(specs.begin(), specs.end(), [](const TensorSpec* s) { return s->aligned; });
}

template <class F>
void switch_type(DType dtype, F&& f) {
  if (dtype == DType::f32) return f.template operator()<float>();
  if (dtype == DType::f16) return f.template operator()<__half>();
  f.template operator()<__nv_bfloat16>();
}

inline unsigned grid_of(const PlaneLoop& loop) {
  return static_cast<unsigned>(std::min(ceil_div<int64_t>(loop.count, kThreads), kNarrowLimit - 1));
}

inline Support supports(const MaxPool2dParams& p, const Specs& s) {
  const Format outputs = format_of({&s.out[0], &s.out[1]});
  if (outputs != Format::row_major) return Support::no("the images are not row-major");
  if (!all_aligned({&s.in[0], &s.out[0], &s.out[1]})) return Support::no("memory is not aligned");
  const Pool2dGeometry g = pool2d_geometry("max_pool2d", p, s.in[0].shape);
  const TensorSpec image = TensorSpec::contiguous(s.in[0].shape, s.in[0].dtype);
  if (std::string reason = refusal(g, image); !reason.empty()) return Support::no(reason);
  return Support::yes().with_contiguous(0b1);
}

inline std::shared_ptr<State> prepare(const MaxPool2dParams& p, const Specs& s) {
  const Pool2dGeometry g = pool2d_geometry("max_pool2d", p, s.in[0].shape);
  const auto results = static_cast<int64_t>(8 / size_of(s.in[0].dtype));
  return std::make_shared<State>(PlaneLoop(g.n * g.c, g.oh, g.ow / results, 1), g);
}

inline void run(const MaxPool2dParams&, const State& s, const Call& c) {
  switch_type(c.in[0].dtype(), [&]<class T>() {
    c.encoder->launch(s.kernel == 2 ? pool_pixels<T, 2> : pool_pixels<T, 3>, grid_of(s.loop),
                      kThreads, 0, s.loop, s.size, c.in[0].as<const T>(), c.out[0].as<T>(),
                      c.out[1].as<int>());
  });
}

inline Support supports_grad(const MaxPool2dGradParams& p, const Specs& s) {
  if (!all_aligned({&s.in[0], &s.in[1], &s.out[0]})) return Support::no("memory is not aligned");
  const Pool2dGeometry g = pool2d_geometry("max_pool2d_grad", p.pool, p.shape);
  if (std::string reason = refusal(g, s.out[0]); !reason.empty()) return Support::no(reason);
  return support_for(format_of({&s.in[0], &s.in[1], &s.out[0]}), format_of({&s.out[0]}), 0b11);
}

inline std::shared_ptr<State> prepare_grad(const MaxPool2dGradParams& p, const Specs& s) {
  const Pool2dGeometry g = pool2d_geometry("max_pool2d_grad", p.pool, p.shape);
  const auto vector = static_cast<int64_t>(16 / size_of(s.out[0].dtype));
  const int64_t rows = ceil_div<int64_t>(g.h, 2);
  const bool channels = !s.out[0].is_contiguous();
  auto state = std::make_shared<State>(
      channels ? PlaneLoop(g.n, rows, ceil_div<int64_t>(g.w, 2), g.c / vector)
               : PlaneLoop(g.n * g.c, rows, g.w / vector, 1),
      g);
  state->channels = channels;
  return state;
}

inline void run_grad(const MaxPool2dGradParams&, const State& s, const Call& c) {
  switch_type(c.out[0].dtype(), [&]<class T>() {
    const auto launch = [&](auto kernel) {
      c.encoder->launch(kernel, grid_of(s.loop), kThreads, 0, s.loop, s.size, c.in[0].as<const T>(),
                        c.in[1].as<const int>(), c.out[0].as<T>());
    };
    if (s.channels) {
      launch(s.kernel == 2 ? gather_channels<T, 2> : gather_channels<T, 3>);
    } else {
      launch(s.kernel == 2 ? gather_pixels<T, 2> : gather_pixels<T, 3>);
    }
  });
}

}  // namespace mica::cuda::pool_stride_2

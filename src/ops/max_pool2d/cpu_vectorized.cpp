#include <algorithm>
#include <utility>

#include "mica/core/check.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/max_pool2d/cpu_2x2.h"
#include "mica/ops/max_pool2d/geometry.h"
#include "mica/runtime/cpu/parallel.h"

// Neighbouring results are computed in the lanes of a vector: columns of a plane in row-major
// images, channels of a pixel in channels_last ones. A last group that is not full is moved back to
// overlap the one before.
namespace mica {
namespace {

using namespace max_pool;

constexpr int64_t kElementsPerThread = 1 << 14;

// The elements `offset` into each window of a row, windows starting `stride` apart. Reads inside
// the windows only: `last` tells that the offset is their end.
template <int Lanes, int Stride, class T>
auto load_windows(const T* line, int64_t stride, int64_t offset, [[maybe_unused]] bool last) {
  using V = typename VectorOf<T, Lanes>::Values;
  if constexpr (Stride == 1) {
    return load<V>(line + offset);
  } else if constexpr (Stride == 2) {  // kernel >= 2: two whole vectors lie inside
    const T* start = line + offset - (last ? 1 : 0);
    const V low = load<V>(start);
    const V high = load<V>(start + Lanes);
    return [&]<int... l>(std::integer_sequence<int, l...>) {
      return last ? __builtin_shufflevector(low, high, (2 * l + 1)...)
                  : __builtin_shufflevector(low, high, (2 * l)...);
    }(std::make_integer_sequence<int, Lanes>());
  } else {
    V v{};
    for (int l = 0; l < Lanes; ++l) v[l] = line[l * stride + offset];
    return v;
  }
}

// One result from an image whose columns are `step` elements apart.
template <class T>
void pool_one(const Pool2dGeometry& g, const T* x, int64_t step, PoolRange rows, PoolRange cols,
              T* y, int32_t* position) {
  T largest = -std::numeric_limits<T>::infinity();
  int64_t at = rows.first * g.w + cols.first;
  for (int64_t h = rows.first; h < rows.last; h += rows.step)
    for (int64_t w = cols.first; w < cols.last; w += cols.step) {
      const T value = x[(h * g.w + w) * step];
      if (!replaces(value, largest)) continue;
      largest = value;
      at = h * g.w + w;
    }
  *y = largest;
  *position = static_cast<int32_t>(at);
}

// Results [ow, ow + Lanes) of one row of a plane; their windows lie inside the columns.
template <int Lanes, int Stride, class T>
void pool_columns(const Pool2dGeometry& g, const T* x, PoolRange rows, int64_t ow, T* y,
                  int32_t* positions) {
  using I = typename VectorOf<T, Lanes>::Indices;
  const int64_t start = ow * g.stride.w - g.padding.w;
  I lanes;
  for (int l = 0; l < Lanes; ++l) lanes[l] = static_cast<Index<T>>(l * g.stride.w);
  const auto at = [&](int64_t h, int64_t j) {
    return lanes + static_cast<Index<T>>(h * g.w + start + j);
  };
  Largest<T, Lanes> largest{.position = at(rows.first, 0)};
  const int64_t end = (g.kernel.w - 1) * g.dilation.w;
  for (int64_t h = rows.first; h < rows.last; h += rows.step)
    for (int64_t j = 0; j <= end; j += g.dilation.w)
      largest.take(load_windows<Lanes, Stride>(x + h * g.w + start, g.stride.w, j, j == end),
                   at(h, j));
  largest.store(y + ow, positions + ow);
}

template <int Lanes, int Stride, class T>
void pool_interior(const Pool2dGeometry& g, const T* x, PoolRange rows, int64_t first, int64_t last,
                   T* y, int32_t* positions) {
  for (int64_t ow = first; ow < last; ow += Lanes)
    pool_columns<Lanes, Stride>(g, x, rows, std::min(ow, last - Lanes), y, positions);
}

// One row of a plane: y and positions (ow) from x (h, w).
template <int Stride, class T>
void pool_row(const Pool2dGeometry& g, const T* x, int64_t oh, T* y, int32_t* positions) {
  constexpr int kLanes = 32 / sizeof(T);
  const PoolRange rows = g.rows(oh);
  // Windows of [first, last) lie inside the columns, `stride` apart.
  int64_t first = g.ow;
  int64_t last = g.ow;
  if (!g.adaptive) {
    first = std::min(g.ow, (g.padding.w + g.stride.w - 1) / g.stride.w);
    const int64_t room = g.w + g.padding.w - (g.kernel.w - 1) * g.dilation.w - 1;
    last = room < 0 ? first : std::clamp(room / g.stride.w + 1, first, g.ow);
  }
  if (last - first >= kLanes) {
    pool_interior<kLanes, Stride>(g, x, rows, first, last, y, positions);
  } else if (last - first >= kLanes / 2) {
    pool_interior<kLanes / 2, Stride>(g, x, rows, first, last, y, positions);
  } else {
    last = first;
  }
  for (int64_t ow = 0; ow < first; ++ow)
    pool_one(g, x, 1, rows, g.cols(ow), y + ow, positions + ow);
  for (int64_t ow = last; ow < g.ow; ++ow)
    pool_one(g, x, 1, rows, g.cols(ow), y + ow, positions + ow);
}

// Calls f(begin, end) for ranges of planes, in parallel.
template <class F>
void for_planes(const Pool2dGeometry& g, F&& f) {
  parallel_for(g.n * g.c, std::max<int64_t>(1, kElementsPerThread / (g.h * g.w)), f);
}

template <int Stride, class T>
void pool_planes(const Pool2dGeometry& g, const T* x, T* y, int32_t* positions) {
  for_planes(g, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane)
      for (int64_t oh = 0; oh < g.oh; ++oh) {
        const int64_t row = (plane * g.oh + oh) * g.ow;
        pool_row<Stride>(g, x + plane * g.h * g.w, oh, y + row, positions + row);
      }
  });
}

// `Groups` vectors of channels of one result, from the first that x (h, w, c), y and positions are
// given for.
template <int Groups, class T>
void pool_channels(const Pool2dGeometry& g, const T* x, PoolRange rows, PoolRange cols, T* y,
                   int32_t* positions) {
  constexpr int kLanes = 32 / sizeof(T);
  using V = typename VectorOf<T, kLanes>::Values;
  using I = typename VectorOf<T, kLanes>::Indices;
  const auto at = [&](int64_t h, int64_t w) { return I{} + static_cast<Index<T>>(h * g.w + w); };
  Largest<T, kLanes> largest[Groups];
  for (auto& group : largest) group.position = at(rows.first, cols.first);
  for (int64_t h = rows.first; h < rows.last; h += rows.step)
    for (int64_t w = cols.first; w < cols.last; w += cols.step) {
      const T* pixel = x + (h * g.w + w) * g.c;
      for (int k = 0; k < Groups; ++k) largest[k].take(load<V>(pixel + k * kLanes), at(h, w));
    }
  for (int k = 0; k < Groups; ++k) largest[k].store(y + k * kLanes, positions + k * kLanes);
}

// One result of all channels.
template <class T>
void pool_pixel(const Pool2dGeometry& g, const T* x, PoolRange rows, PoolRange cols, T* y,
                int32_t* positions) {
  constexpr int kLanes = 32 / sizeof(T);
  constexpr int kGroups = 4;
  int64_t c = 0;
  for (; c + kGroups * kLanes <= g.c; c += kGroups * kLanes)
    pool_channels<kGroups>(g, x + c, rows, cols, y + c, positions + c);
  if (g.c < kLanes) {
    for (; c < g.c; ++c) pool_one(g, x + c, g.c, rows, cols, y + c, positions + c);
  }
  for (; c < g.c; c += kLanes) {
    const int64_t start = std::min(c, g.c - kLanes);
    pool_channels<1>(g, x + start, rows, cols, y + start, positions + start);
  }
}

template <class T>
void pool_pixels(const Pool2dGeometry& g, const T* x, T* y, int32_t* positions) {
  const int64_t grain = std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(1, g.ow * g.c));
  parallel_for(g.n * g.oh, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* image = x + row / g.oh * g.h * g.w * g.c;
      const PoolRange rows = g.rows(row % g.oh);
      for (int64_t ow = 0; ow < g.ow; ++ow) {
        const int64_t result = (row * g.ow + ow) * g.c;
        pool_pixel(g, image, rows, g.cols(ow), y + result, positions + result);
      }
    }
  });
}

// All tensors of the call in the first output's format.
Support supports_layouts(const Specs& specs, uint32_t inputs) {
  const TensorSpec& out = specs.out[0];
  if (out.dtype != DType::f32 && out.dtype != DType::f64)
    return Support::no("computes f32 and f64 only");
  const bool channels_last = works_channels_last(out, specs.in[0]);
  for (const TensorSpec& s : specs.out)
    if (!(channels_last ? s.is_channels_last_dense() : s.is_contiguous()))
      return Support::no("writes row-major and channels_last results only");
  return channels_last ? Support::yes().with_channels_last(inputs)
                       : Support::yes().with_contiguous(inputs);
}

template <class P>
Support supports(const P&, const Specs& specs) {
  return supports_layouts(specs, 1);
}

template <class T>
void forward(const Pool2dGeometry& g, const Call& call) {
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  int32_t* positions = call.out[1].as<int32_t>();
  if (works_channels_last(*call.out[0].spec, *call.in[0].spec)) {
    pool_pixels(g, x, y, positions);
  } else if (pool_2x2::takes<T>(g)) {
    const int64_t results = g.oh * g.ow;
    for_planes(g, [&](int64_t begin, int64_t end) {
      pool_2x2::pool(g, end - begin, x + begin * g.h * g.w, y + begin * results,
                     positions + begin * results);
    });
  } else if (g.stride.w == 1) {
    pool_planes<1>(g, x, y, positions);
  } else if (g.stride.w == 2 && g.kernel.w >= 2) {
    pool_planes<2>(g, x, y, positions);
  } else {
    pool_planes<0>(g, x, y, positions);
  }
}

void forward(const Pool2dGeometry& g, const Call& call) {
  if (call.out[0].dtype() == DType::f64) return forward<double>(g, call);
  forward<float>(g, call);
}

void run(const MaxPool2dParams& params, const Call& call) {
  forward(pool2d_geometry("max_pool2d", params, call.in[0].shape()), call);
}

void run_adaptive(const AdaptivePool2dParams& params, const Call& call) {
  forward(adaptive_pool2d_geometry("adaptive_max_pool2d", call.in[0].shape(), params.output), call);
}

Support supports_grad(const MaxPool2dGradParams&, const Specs& specs) {
  return supports_layouts(specs, 3);
}

[[noreturn]] void refuse_position(int64_t position, int64_t size) {
  fail<IndexError>("max_pool2d_grad: position {} is outside the image of {} elements", position,
                   size);
}

template <class T>
void scatter_planes(const Pool2dGeometry& g, const T* dy, const int32_t* positions, T* dx) {
  const int64_t size = g.h * g.w;
  const int64_t results = g.oh * g.ow;
  for_planes(g, [&](int64_t begin, int64_t end) {
    if (pool_2x2::takes<T>(g) && pool_2x2::spread(g, end - begin, dy + begin * results,
                                                  positions + begin * results, dx + begin * size))
      return;
    for (int64_t plane = begin; plane < end; ++plane) {
      T* to = dx + plane * size;
      std::fill_n(to, size, T(0));
      for (int64_t i = plane * results; i < (plane + 1) * results; ++i) {
        const int64_t at = positions[i];
        if (at < 0 || at >= size) refuse_position(at, size);
        to[at] += dy[i];
      }
    }
  });
}

template <class T>
void add_where(const T* dy, const int32_t* positions, int32_t at, int64_t n, T* dx) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] += positions[i] == at ? dy[i] : T(0);
}

// Every row of dx takes dy from the windows over it, where the position is the element's own.
template <class T>
void gather_rows(const Pool2dGeometry& g, const T* dy, const int32_t* positions, T* dx) {
  const int64_t grain = std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(1, g.w * g.c));
  const int64_t reach = (g.kernel.h - 1) * g.dilation.h;
  parallel_for(g.n * g.h, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / g.h;
      const int64_t h = row % g.h;
      T* const line = dx + row * g.w * g.c;
      std::fill_n(line, g.w * g.c, T(0));
      const int64_t past = std::max<int64_t>(0, h + g.padding.h - reach);
      const int64_t last = std::min(g.oh - 1, (h + g.padding.h) / g.stride.h);
      for (int64_t oh = (past + g.stride.h - 1) / g.stride.h; oh <= last; ++oh) {
        if ((h + g.padding.h - oh * g.stride.h) % g.dilation.h != 0) continue;
        for (int64_t ow = 0; ow < g.ow; ++ow) {
          const PoolRange cols = g.cols(ow);
          const int64_t result = ((image * g.oh + oh) * g.ow + ow) * g.c;
          for (int64_t w = cols.first; w < cols.last; w += cols.step)
            add_where(dy + result, positions + result, static_cast<int32_t>(h * g.w + w), g.c,
                      line + w * g.c);
        }
      }
    }
  });
}

// In channels_last order.
void check_positions(const Pool2dGeometry& g, const int32_t* positions) {
  const int64_t size = g.h * g.w;
  parallel_for(g.n * g.oh * g.ow * g.c, kElementsPerThread, [&](int64_t begin, int64_t end) {
    int32_t low = 0;
    int32_t high = 0;
    for (int64_t i = begin; i < end; ++i) {
      low = std::min(low, positions[i]);
      high = std::max(high, positions[i]);
    }
    if (low < 0) refuse_position(low, size);
    if (high >= size) refuse_position(high, size);
  });
}

template <class T>
void backward(const Pool2dGeometry& g, const Call& call) {
  const T* dy = call.in[0].as<T>();
  const int32_t* positions = call.in[1].as<int32_t>();
  T* dx = call.out[0].as<T>();
  if (!works_channels_last(*call.out[0].spec, *call.in[0].spec))
    return scatter_planes(g, dy, positions, dx);
  check_positions(g, positions);
  gather_rows(g, dy, positions, dx);
}

void run_grad(const MaxPool2dGradParams& params, const Call& call) {
  const Pool2dGeometry g = pool2d_geometry("max_pool2d_grad", params.pool, params.shape);
  if (call.out[0].dtype() == DType::f64) return backward<double>(g, call);
  backward<float>(g, call);
}

}  // namespace

Kernel max_pool2d_vectorized_kernel() {
  return kernel<supports<MaxPool2dParams>, run>("vectorized");
}
Kernel adaptive_max_pool2d_vectorized_kernel() {
  return kernel<supports<AdaptivePool2dParams>, run_adaptive>("vectorized");
}
Kernel max_pool2d_grad_vectorized_kernel() { return kernel<supports_grad, run_grad>("vectorized"); }

}  // namespace mica

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/grid_sample/taps.h"
#include "mica/ops/layouts.h"
#include "mica/runtime/cpu/parallel.h"

// The taps of a chunk of points are found once and serve all channels. A row-major image is planes
// of single values, a channels_last one a plane of pixels with C values each.
namespace mica {
namespace {

constexpr int64_t kChunk = 64;
constexpr int64_t kElementsPerThread = 1 << 13;

// Sizes of a call. The points of an image are counted row by row.
struct Layout {
  int64_t images, channels, pixels, points;
  int64_t height, width;
  bool channels_last;

  Layout(const TensorSpec& x, const TensorSpec& grid)
      : images(x.shape[0]),
        channels(x.shape[1]),
        pixels(x.shape[2] * x.shape[3]),
        points(grid.shape[1] * grid.shape[2]),
        height(x.shape[2]),
        width(x.shape[3]),
        channels_last(x.is_channels_last()) {}

  int64_t chunks() const { return (points + kChunk - 1) / kChunk; }
  int64_t grain(int64_t elements) const {
    return std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(elements, 1));
  }
};

// Pixels and weights of up to kChunk points, point after point along the innermost axis.
template <class T, int K>
struct Table {
  int64_t count;
  int32_t pixel[K * K][kChunk];  ///< h * W + w; -1 outside
  T weight[K * K][kChunk];
  T along_x[K * K][kChunk];  ///< slopes of the weight
  T along_y[K * K][kChunk];

  void fill(const GridSampleParams& p, const Layout& l, const T* grid, int64_t chunk, bool slopes) {
    count = std::min(kChunk, l.points - chunk * kChunk);
    const T* point = grid + 2 * chunk * kChunk;
    for (int64_t i = 0; i < count; ++i, point += 2) {
      const GridTaps cols = grid_taps_at(static_cast<double>(point[0]), l.width, p);
      const GridTaps rows = grid_taps_at(static_cast<double>(point[1]), l.height, p);
      for (size_t r = 0; r < K; ++r)
        for (size_t c = 0; c < K; ++c) {
          const size_t tap = r * K + c;
          const bool inside = rows.index[r] >= 0 && cols.index[c] >= 0;
          pixel[tap][i] =
              inside ? rows.index[r] * static_cast<int32_t>(l.width) + cols.index[c] : -1;
          weight[tap][i] = static_cast<T>(rows.weight[r] * cols.weight[c]);
          if (!slopes) continue;
          along_x[tap][i] = static_cast<T>(rows.weight[r] * cols.slope[c]);
          along_y[tap][i] = static_cast<T>(rows.slope[r] * cols.weight[c]);
        }
    }
  }
};

template <class T, int K>
void sample_planes(const Table<T, K>& t, const Layout& l, const T* x, T* y) {
  for (int64_t c = 0; c < l.channels; ++c, x += l.pixels, y += l.points)
    for (int64_t i = 0; i < t.count; ++i) {
      T sum = 0;
      for (int k = 0; k < K * K; ++k) {
        const int32_t at = t.pixel[k][i];
        sum += at < 0 ? T(0) : t.weight[k][i] * x[at];
      }
      y[i] = sum;
    }
}

template <class T, int K>
void sample_pixels(const Table<T, K>& t, const Layout& l, const T* x, T* y) {
  for (int64_t i = 0; i < t.count; ++i, y += l.channels) {
    std::fill_n(y, l.channels, T(0));
    for (int k = 0; k < K * K; ++k) {
      if (t.pixel[k][i] < 0) continue;
      const T* pixel = x + t.pixel[k][i] * l.channels;
      const T w = t.weight[k][i];
      for (int64_t c = 0; c < l.channels; ++c) y[c] += w * pixel[c];
    }
  }
}

template <class T, int K>
void sample(const GridSampleParams& p, const Call& call) {
  const Layout l(*call.in[0].spec, *call.in[1].spec);
  const int64_t chunks = l.chunks();
  parallel_for(l.images * chunks, l.grain(kChunk * l.channels), [&](int64_t begin, int64_t end) {
    Table<T, K> table;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t n = task / chunks;
      const int64_t chunk = task % chunks;
      table.fill(p, l, call.in[1].as<T>() + 2 * n * l.points, chunk, false);
      const T* x = call.in[0].as<T>() + n * l.channels * l.pixels;
      T* y = call.out[0].as<T>() + n * l.channels * l.points;
      if (l.channels_last) {
        sample_pixels(table, l, x, y + chunk * kChunk * l.channels);
      } else {
        sample_planes(table, l, x, y + chunk * kChunk);
      }
    }
  });
}

// Gradients of a chunk's points, dgrid (count, 2), from planes.
template <class T, int K>
void move_by_planes(const Table<T, K>& t, const Layout& l, const T* dy, const T* x, T* dgrid) {
  T along_x[kChunk] = {};
  T along_y[kChunk] = {};
  for (int64_t c = 0; c < l.channels; ++c, x += l.pixels, dy += l.points)
    for (int64_t i = 0; i < t.count; ++i) {
      T sum_x = 0;
      T sum_y = 0;
      for (int k = 0; k < K * K; ++k) {
        const int32_t at = t.pixel[k][i];
        const T value = at < 0 ? T(0) : x[at];
        sum_x += t.along_x[k][i] * value;
        sum_y += t.along_y[k][i] * value;
      }
      along_x[i] += dy[i] * sum_x;
      along_y[i] += dy[i] * sum_y;
    }
  for (int64_t i = 0; i < t.count; ++i) {
    dgrid[2 * i] = along_x[i];
    dgrid[2 * i + 1] = along_y[i];
  }
}

// The same from pixels.
template <class T, int K>
void move_by_pixels(const Table<T, K>& t, const Layout& l, const T* dy, const T* x, T* dgrid) {
  for (int64_t i = 0; i < t.count; ++i, dy += l.channels) {
    T along_x = 0;
    T along_y = 0;
    for (int k = 0; k < K * K; ++k) {
      if (t.pixel[k][i] < 0) continue;
      const T* pixel = x + t.pixel[k][i] * l.channels;
      T dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t c = 0; c < l.channels; ++c) dot += dy[c] * pixel[c];
      along_x += dot * t.along_x[k][i];
      along_y += dot * t.along_y[k][i];
    }
    dgrid[2 * i] = along_x;
    dgrid[2 * i + 1] = along_y;
  }
}

// Adds a chunk's part of the gradient of channels [begin, end) to dx.
template <class T, int K>
void scatter_chunk(const Table<T, K>& t, const Layout& l, const T* dy, int64_t begin, int64_t end,
                   T* dx) {
  if (l.channels_last) {
    for (int64_t i = 0; i < t.count; ++i, dy += l.channels)
      for (int k = 0; k < K * K; ++k) {
        if (t.pixel[k][i] < 0) continue;
        T* pixel = dx + t.pixel[k][i] * l.channels;
        const T w = t.weight[k][i];
        for (int64_t c = begin; c < end; ++c) pixel[c] += w * dy[c];
      }
    return;
  }
  for (int64_t c = begin; c < end; ++c)
    for (int64_t i = 0; i < t.count; ++i)
      for (int k = 0; k < K * K; ++k)
        if (t.pixel[k][i] >= 0)
          dx[c * l.pixels + t.pixel[k][i]] += t.weight[k][i] * dy[c * l.points + i];
}

template <class T, int K>
void differentiate_sample(const GridSampleParams& p, const Call& call) {
  const Layout l(*call.in[1].spec, *call.in[2].spec);
  const int64_t chunks = l.chunks();
  const T* grid = call.in[2].as<T>();
  // Where a chunk's part of an image (channels, points) begins.
  const auto part = [&](int64_t n, int64_t chunk) {
    return n * l.channels * l.points + chunk * kChunk * (l.channels_last ? l.channels : 1);
  };
  parallel_for(l.images * chunks, l.grain(kChunk * l.channels), [&](int64_t begin, int64_t end) {
    Table<T, K> table;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t n = task / chunks;
      const int64_t chunk = task % chunks;
      table.fill(p, l, grid + 2 * n * l.points, chunk, true);
      const T* dy = call.in[0].as<T>() + part(n, chunk);
      const T* x = call.in[1].as<T>() + n * l.channels * l.pixels;
      T* dgrid = call.out[1].as<T>() + 2 * (n * l.points + chunk * kChunk);
      if (l.channels_last) {
        move_by_pixels(table, l, dy, x, dgrid);
      } else {
        move_by_planes(table, l, dy, x, dgrid);
      }
    }
  });
  // A pixel belongs to one thread: images, and ranges of channels where there are few images.
  const int64_t shares = std::clamp<int64_t>(num_threads() / std::max<int64_t>(l.images, 1), 1,
                                             std::max<int64_t>(l.channels, 1));
  std::fill_n(call.out[0].as<T>(), call.out[0].numel(), T(0));
  parallel_for(l.images * shares, l.grain(l.channels * l.points / shares),
               [&](int64_t begin, int64_t end) {
                 Table<T, K> table;
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t n = task / shares;
                   const int64_t share = task % shares;
                   for (int64_t chunk = 0; chunk < chunks; ++chunk) {
                     table.fill(p, l, grid + 2 * n * l.points, chunk, false);
                     scatter_chunk(table, l, call.in[0].as<T>() + part(n, chunk),
                                   l.channels * share / shares, l.channels * (share + 1) / shares,
                                   call.out[0].as<T>() + n * l.channels * l.pixels);
                   }
                 }
               });
}

template <class F>
void with_type_and_taps(const GridSampleParams& p, DType dtype, F&& f) {
  const auto with_type = [&]<class T>() {
    if (p.mode == GridMode::nearest) return f.template operator()<T, 1>();
    if (p.mode == GridMode::bilinear) return f.template operator()<T, 2>();
    f.template operator()<T, 4>();
  };
  if (dtype == DType::f64) return with_type.template operator()<double>();
  with_type.template operator()<float>();
}

template <uint32_t images, uint32_t grid>
Support supports(const GridSampleParams&, const Specs& specs) {
  const DType dtype = specs.out[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return Support::no("computes f32 and f64 only");
  return supports_layouts(specs, images, grid);
}

void run(const GridSampleParams& p, const Call& call) {
  if (call.out[0].numel() == 0) return;
  with_type_and_taps(p, call.out[0].dtype(), [&]<class T, int K>() { sample<T, K>(p, call); });
}

void run_grad(const GridSampleParams& p, const Call& call) {
  with_type_and_taps(p, call.out[0].dtype(),
                     [&]<class T, int K>() { differentiate_sample<T, K>(p, call); });
}

}  // namespace

Kernel grid_sample_tabulated_kernel() { return kernel<supports<0b1, 0b10>, run>("tabulated"); }
Kernel grid_sample_grad_tabulated_kernel() {
  return kernel<supports<0b11, 0b100>, run_grad>("tabulated");
}

}  // namespace mica

#include "mica/ops/im2col/windows.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

/// Splits a row-major index over sizes, the last first.
struct Splitter {
  int64_t size[3];
  bool narrow;  ///< indices fit in 31 bits
  Divider by_size[3];

  Splitter(int64_t count, int64_t a, int64_t b, int64_t c)
      : size{a, b, c}, narrow(count < kNarrowLimit) {
    for (int k = 0; narrow && count > 0 && k < 3; ++k)
      by_size[k] = Divider(static_cast<uint32_t>(size[k]));
  }
  /// The part of the index that axis k has; the index becomes the rest.
  __device__ int64_t take(int k, int64_t& index) const {
    const int64_t rest =
        narrow ? int64_t{by_size[k].quotient(static_cast<uint32_t>(index))} : index / size[k];
    const int64_t part = index - rest * size[k];
    index = rest;
    return part;
  }
};

constexpr int kInFlight = 4;  ///< windows of a thread
constexpr int64_t kPiece = int64_t{kThreads} * kInFlight;

/// A block takes pieces of the columns' rows (n, c, i, j), which are windows (oh, ow) side by side;
/// x has any strides.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    unfold(const __grid_constant__ Windows g, const __grid_constant__ Splitter windows,
           const __grid_constant__ Splitter rows, Word* out, const Word* x, int64_t pieces,
           int64_t units, int64_t sn, int64_t sc, int64_t sh, int64_t sw) {
  const Im2colParams& p = g.params;
  const int64_t count = g.oh * g.ow;
  for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const int64_t row = unit / pieces;
    const int64_t first = (unit - row * pieces) * kPiece + threadIdx.x;
    int64_t n = row;
    const int64_t j = rows.take(2, n);
    const int64_t i = rows.take(1, n);
    const int64_t c = rows.take(0, n);
    const int64_t h0 = i * p.dilation.h - p.padding.h;
    const int64_t w0 = j * p.dilation.w - p.padding.w;
    const Word* plane = x + n * sn + c * sc;
    Word values[kInFlight] = {};
#pragma unroll
    for (int e = 0; e < kInFlight; ++e) {
      int64_t oh = first + e * kThreads;
      if (oh >= count) break;
      const int64_t ow = windows.take(2, oh);
      const int64_t h = oh * p.stride.h + h0;
      const int64_t w = ow * p.stride.w + w0;
      if (h >= 0 && h < g.h && w >= 0 && w < g.w) values[e] = plane[h * sh + w * sw];
    }
#pragma unroll
    for (int e = 0; e < kInFlight; ++e)
      if (first + e * kThreads < count) out[row * count + first + e * kThreads] = values[e];
  }
}

void run(const Im2colParams& p, const Call& call) {
  const Shape& s = call.in[0].shape();
  const Strides& x = call.in[0].strides();
  const Windows g = im2col_windows("im2col", p, s[0], s[1], s[2], s[3]);
  const int64_t count = call.out[0].numel();
  if (count == 0) return;
  const Splitter windows(count, 1, g.oh, g.ow);
  const Splitter rows(count, g.c, p.kernel.h, p.kernel.w);
  const int64_t pieces = ceil_div(g.windows(), kPiece);
  const int64_t units = g.n * g.rows() * pieces;
  const unsigned grid = grid_for(units, 1, call.encoder->multiprocessors());
  const auto launch = [&]<class Word>() {
    call.encoder->launch(unfold<Word>, grid, kThreads, 0, g, windows, rows, call.out[0].as<Word>(),
                         call.in[0].as<const Word>(), pieces, units, x[0], x[1], x[2], x[3]);
  };
  switch (size_of(call.out[0].dtype())) {
    case 2:
      return launch.operator()<uint16_t>();
    case 4:
      return launch.operator()<uint32_t>();
    default:
      return launch.operator()<uint64_t>();
  }
}

/// Element i of window o lies over pixel o · stride + i · dilation - padding: the window whose
/// element i lies over a pixel, or -1.
__device__ int64_t window_over(int64_t pixel, int64_t i, int64_t stride, int64_t padding,
                               int64_t dilation, int64_t windows) {
  const int64_t start = pixel + padding - i * dilation;
  if (start < 0) return -1;
  const int64_t o = start < kNarrowLimit && stride < kNarrowLimit
                        ? int64_t{static_cast<uint32_t>(start) / static_cast<uint32_t>(stride)}
                        : start / stride;
  return o < windows && o * stride == start ? o : -1;
}

/// Row-major (n, c, h, w) of the images: each pixel gathers from the windows over it, in order.
template <class T>
__global__ void __launch_bounds__(kThreads)
    fold(const __grid_constant__ Windows g, const __grid_constant__ Splitter pixels, T* out,
         const T* columns, int64_t count, int64_t sn, int64_t srow, int64_t swindow) {
  const Im2colParams& p = g.params;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; k < count;
       k += step) {
    int64_t rest = k;
    const int64_t w = pixels.take(2, rest);
    const int64_t h = pixels.take(1, rest);
    const int64_t c = pixels.take(0, rest);
    const T* channel = columns + rest * sn + c * p.kernel.h * p.kernel.w * srow;
    Compute<T> sum = 0;
    for (int64_t i = 0; i < p.kernel.h; ++i) {
      const int64_t oh = window_over(h, i, p.stride.h, p.padding.h, p.dilation.h, g.oh);
      if (oh < 0) continue;
      for (int64_t j = 0; j < p.kernel.w; ++j) {
        const int64_t ow = window_over(w, j, p.stride.w, p.padding.w, p.dilation.w, g.ow);
        if (ow < 0) continue;
        sum += to_compute(channel[(i * p.kernel.w + j) * srow + (oh * g.ow + ow) * swindow]);
      }
    }
    out[k] = convert<T>(sum);
  }
}

Support supports_col2im(const Col2imParams&, const Specs& s) {
  if (!s.out[0].is_contiguous()) return Support::no("writes row-major results only");
  return Support::yes();
}

void run_col2im(const Col2imParams& p, const Call& call) {
  const Shape& s = call.out[0].shape();
  const Strides& columns = call.in[0].strides();
  const Windows g = im2col_windows("col2im", p.im2col, s[0], s[1], s[2], s[3]);
  const int64_t count = call.out[0].numel();
  const Splitter pixels(count, g.c, g.h, g.w);
  const unsigned grid = grid_for(count, kThreads, call.encoder->multiprocessors());
  cuda_switch_float(call.out[0].dtype(), "col2im", [&]<class T>() {
    call.encoder->launch(fold<T>, grid, kThreads, 0, g, pixels, call.out[0].as<T>(),
                         call.in[0].as<const T>(), count, columns[0], columns[1], columns[2]);
  });
}

}  // namespace

KernelList im2col_cuda_kernels() { return {kernel<supports_all<Im2colParams>, run>("direct")}; }
KernelList col2im_cuda_kernels() { return {kernel<supports_col2im, run_col2im>("gathered")}; }

}  // namespace mica

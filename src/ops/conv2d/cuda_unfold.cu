// Windows of images as rows of a matrix.
#include "mica/ops/conv2d/cuda_unfold.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica {
namespace {

constexpr int kThreads = 256;

/// Sizes in vectors of 16 bytes.
struct Unfolding {
  int count;
  int h, w, oh, ow;
  int stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  int kernel_w;
  int vectors;
  cuda::Divider by_vectors, by_window, by_ow, by_oh, by_kernel_w;
};

__global__ void __launch_bounds__(kThreads)
    unfold(const __grid_constant__ Unfolding p, const uint4* __restrict__ x,
           uint4* __restrict__ rows) {
  const auto i = static_cast<uint32_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= static_cast<uint32_t>(p.count)) return;
  const uint32_t place = p.by_vectors.quotient(i);
  const uint32_t vector = i - place * p.by_vectors.divisor;
  const uint32_t pixel = p.by_window.quotient(place);
  const uint32_t in_window = place - pixel * p.by_window.divisor;
  const uint32_t line = p.by_ow.quotient(pixel);
  const uint32_t image = p.by_oh.quotient(line);
  const uint32_t r = p.by_kernel_w.quotient(in_window);
  const int h = static_cast<int>(line - image * p.by_oh.divisor) * p.stride_h - p.padding_h +
                static_cast<int>(r) * p.dilation_h;
  const int w = static_cast<int>(pixel - line * p.by_ow.divisor) * p.stride_w - p.padding_w +
                static_cast<int>(in_window - r * p.by_kernel_w.divisor) * p.dilation_w;
  const bool inside = h >= 0 && h < p.h && w >= 0 && w < p.w;
  const int64_t from =
      ((int64_t{image} * p.h + h) * p.w + w) * p.vectors + static_cast<int>(vector);
  rows[i] = inside ? x[from] : uint4{};
}

}  // namespace

void unfold_windows(Encoder& encoder, const Conv2dGeometry& g, size_t element_bytes, const void* x,
                    void* rows) {
  const auto narrow = [](int64_t size) { return static_cast<int>(size); };
  const auto by = [](int64_t size) { return cuda::Divider(static_cast<uint32_t>(size)); };
  const int64_t vectors = g.c * static_cast<int64_t>(element_bytes) / 16;
  const int64_t count = unfolded_bytes(g, element_bytes) / 16;
  const Unfolding p{.count = narrow(count),
                    .h = narrow(g.h),
                    .w = narrow(g.w),
                    .oh = narrow(g.oh),
                    .ow = narrow(g.ow),
                    .stride_h = narrow(g.stride.h),
                    .stride_w = narrow(g.stride.w),
                    .padding_h = narrow(g.padding.h),
                    .padding_w = narrow(g.padding.w),
                    .dilation_h = narrow(g.dilation.h),
                    .dilation_w = narrow(g.dilation.w),
                    .kernel_w = narrow(g.kw),
                    .vectors = narrow(vectors),
                    .by_vectors = by(vectors),
                    .by_window = by(g.kh * g.kw),
                    .by_ow = by(g.ow),
                    .by_oh = by(g.oh),
                    .by_kernel_w = by(g.kw)};
  encoder.launch(unfold, static_cast<unsigned>(cuda::ceil_div<int64_t>(count, kThreads)), kThreads,
                 0, p, static_cast<const uint4*>(x), static_cast<uint4*>(rows));
}

}  // namespace mica

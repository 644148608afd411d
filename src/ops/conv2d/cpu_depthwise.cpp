#include <algorithm>

#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/cpu_windows.h"
#include "mica/runtime/cpu/parallel.h"

// Convolutions whose groups have one input channel each, in row-major order: plane by plane, a
// kernel element times a row at a time. As products of matrices they would be one row high.
namespace mica {
namespace {

constexpr int64_t kElementsPerThread = 1 << 13;

Support supports_geometry(const Conv2dGeometry& g, const Specs& specs, bool channels_last) {
  if (g.groups == 1 || g.group_in() != 1)
    return Support::no("is for groups of one input channel each");
  const TensorSpec& out = specs.out[0];
  if (out.dtype != DType::f32 && out.dtype != DType::f64)
    return Support::no("computes f32 and f64 only");
  if (channels_last || !out.is_contiguous()) return Support::no("works in row-major order only");
  return Support::yes().with_contiguous(3);
}

template <class F>
void switch_dtype(DType dtype, F&& f) {
  if (dtype == DType::f64) return f.template operator()<double>();
  f.template operator()<float>();
}

int64_t grain(int64_t elements) { return std::max<int64_t>(1, kElementsPerThread / elements); }

// Calls f(x's offset in its plane, y's offset in its plane, number of columns) for each row of
// products with kernel element (i, j).
template <class F>
void each_row(const Conv2dGeometry& g, int64_t i, int64_t j, F&& f) {
  const auto [first, last] = columns_inside(g, j);
  const int64_t column = first * g.stride.w - g.padding.w + j * g.dilation.w;
  for (int64_t oh = 0; oh < g.oh; ++oh) {
    const int64_t h = oh * g.stride.h - g.padding.h + i * g.dilation.h;
    if (h >= 0 && h < g.h) f(h * g.w + column, oh * g.ow + first, last - first);
  }
}

// Calls f with the stride of the columns, as a constant where it is 1 or 2.
template <class F>
void with_stride(int64_t stride, F&& f) {
  if (stride == 1) return f(std::integral_constant<int64_t, 1>());
  if (stride == 2) return f(std::integral_constant<int64_t, 2>());
  f(stride);
}

// The plane of x that a plane of y reads.
int64_t input_plane(const Conv2dGeometry& g, int64_t y_plane) {
  return y_plane / g.o * g.c + y_plane % g.o / g.group_out();
}

Support supports(const Conv2dParams& params, const Specs& specs) {
  return supports_geometry(conv2d_geometry("conv2d", params, specs.in[0].shape, specs.in[1].shape),
                           specs, works_channels_last(specs.out[0], specs.in[0]));
}

template <class T>
void forward(const Conv2dGeometry& g, const Call& call) {
  const Arg& bias = call.in[2];
  parallel_for(g.n * g.o, grain(g.pixels()), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t o = plane % g.o;
      const T* x = call.in[0].as<T>() + input_plane(g, plane) * g.h * g.w;
      const T* w = call.in[1].as<T>() + o * g.kh * g.kw;
      T* y = call.out[0].as<T>() + plane * g.pixels();
      std::fill_n(y, g.pixels(), bias.defined() ? bias.as<T>()[o * bias.strides()[0]] : T(0));
      with_stride(g.stride.w, [&](auto stride) {
        for (int64_t i = 0; i < g.kh; ++i)
          for (int64_t j = 0; j < g.kw; ++j, ++w) {
            const T factor = *w;
            each_row(g, i, j, [&](int64_t from, int64_t to, int64_t n) {
              const T* row = x + from;
              T* sums = y + to;
#pragma omp simd
              for (int64_t e = 0; e < n; ++e) sums[e] += factor * row[e * stride];
            });
          }
      });
    }
  });
}

void run(const Conv2dParams& params, const Call& call) {
  const auto g = conv2d_geometry("conv2d", params, call.in[0].shape(), call.in[1].shape());
  switch_dtype(call.out[0].dtype(), [&]<class T>() { forward<T>(g, call); });
}

Support supports_dgrad(const Conv2dGradParams& params, const Specs& specs) {
  return supports_geometry(
      conv2d_geometry("conv2d_dgrad", params.conv, params.shape, specs.in[1].shape), specs,
      works_channels_last(specs.out[0], specs.in[0]));
}

template <class T>
void dgrad(const Conv2dGeometry& g, const Call& call) {
  parallel_for(g.n * g.c, grain(g.h * g.w), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      T* dx = call.out[0].as<T>() + plane * g.h * g.w;
      std::fill_n(dx, g.h * g.w, T(0));
      for (int64_t k = 0; k < g.group_out(); ++k) {
        const int64_t o = plane % g.c * g.group_out() + k;
        const T* dy = call.in[0].as<T>() + (plane / g.c * g.o + o) * g.pixels();
        const T* w = call.in[1].as<T>() + o * g.kh * g.kw;
        with_stride(g.stride.w, [&](auto stride) {
          for (int64_t i = 0; i < g.kh; ++i)
            for (int64_t j = 0; j < g.kw; ++j, ++w) {
              const T factor = *w;
              each_row(g, i, j, [&](int64_t to, int64_t from, int64_t n) {
                const T* row = dy + from;
                T* sums = dx + to;
#pragma omp simd
                for (int64_t e = 0; e < n; ++e) sums[e * stride] += factor * row[e];
              });
            }
        });
      }
    }
  });
}

void run_dgrad(const Conv2dGradParams& params, const Call& call) {
  const auto g = conv2d_geometry("conv2d_dgrad", params.conv, params.shape, call.in[1].shape());
  switch_dtype(call.out[0].dtype(), [&]<class T>() { dgrad<T>(g, call); });
}

Support supports_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  return supports_geometry(
      conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape), specs,
      wgrad_channels_last(specs));
}

template <class T>
void wgrad(const Conv2dGeometry& g, const Call& call) {
  parallel_for(g.o, grain(g.n * g.pixels() + 1), [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      T* dw = call.out[0].as<T>() + o * g.kh * g.kw;
      with_stride(g.stride.w, [&](auto stride) {
        for (int64_t i = 0; i < g.kh; ++i)
          for (int64_t j = 0; j < g.kw; ++j) {
            double total = 0;
            for (int64_t image = 0; image < g.n; ++image) {
              const int64_t plane = image * g.o + o;
              const T* dy = call.in[0].as<T>() + plane * g.pixels();
              const T* x = call.in[1].as<T>() + input_plane(g, plane) * g.h * g.w;
              each_row(g, i, j, [&](int64_t from, int64_t to, int64_t n) {
                const T* row = x + from;
                const T* factors = dy + to;
                T sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t e = 0; e < n; ++e) sum += factors[e] * row[e * stride];
                total += static_cast<double>(sum);
              });
            }
            dw[i * g.kw + j] = static_cast<T>(total);
          }
      });
    }
  });
}

void run_wgrad(const Conv2dGradParams& params, const Call& call) {
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, call.in[1].shape(), params.shape);
  switch_dtype(call.out[0].dtype(), [&]<class T>() { wgrad<T>(g, call); });
}

}  // namespace

Kernel conv2d_depthwise_kernel() { return kernel<supports, run>("depthwise"); }
Kernel conv2d_dgrad_depthwise_kernel() { return kernel<supports_dgrad, run_dgrad>("depthwise"); }
Kernel conv2d_wgrad_depthwise_kernel() { return kernel<supports_wgrad, run_wgrad>("depthwise"); }

}  // namespace mica

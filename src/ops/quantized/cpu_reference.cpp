#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/quantized/kernels.h"

namespace mica {
namespace {

template <class P>
Support supports(const P&, const Specs&) {
  return Support::yes().with_contiguous({1, 2, 3});
}

/// An element as the integer that stands for it.
int32_t integer(const Quantization& q, const Arg& x, int64_t at) {
  if (x.dtype() == DType::i8) return x.as<int8_t>()[at];
  if (x.dtype() == DType::u8) return x.as<uint8_t>()[at];
  return quantized(q, x.as<float>()[at]);
}

float finished(const Call& call, int64_t channel, int64_t sum) {
  const double scaled =
      static_cast<double>(call.in[2].as<float>()[channel]) * static_cast<double>(sum);
  const double bias =
      call.in[3].defined() ? static_cast<double>(call.in[3].as<float>()[channel]) : 0.0;
  return static_cast<float>(scaled + bias);
}

void run_conv(const QuantizedConv2dParams& p, const Call& call) {
  const Conv2dGeometry g =
      conv2d_geometry("quantized_conv2d", p.conv, call.in[0].shape(), call.in[1].shape());
  const Strides& xs = call.in[0].strides();
  const Strides& ys = call.out[0].strides();
  const auto* w = call.in[1].as<int8_t>();
  const auto pixel = [&](int64_t n, int64_t o, int64_t oh, int64_t ow) {
    int64_t sum = 0;
    for (int64_t c = 0; c < g.group_in(); ++c)
      for (int64_t i = 0; i < g.kh; ++i)
        for (int64_t j = 0; j < g.kw; ++j) {
          const int64_t h = oh * g.stride.h - g.padding.h + i * g.dilation.h;
          const int64_t v = ow * g.stride.w - g.padding.w + j * g.dilation.w;
          if (h < 0 || v < 0 || h >= g.h || v >= g.w) continue;
          const int64_t channel = o / g.group_out() * g.group_in() + c;
          const int64_t at = n * xs[0] + channel * xs[1] + h * xs[2] + v * xs[3];
          sum += int64_t{integer(p.x, call.in[0], at)} *
                 w[((o * g.group_in() + c) * g.kh + i) * g.kw + j];
        }
    call.out[0].as<float>()[n * ys[0] + o * ys[1] + oh * ys[2] + ow * ys[3]] =
        finished(call, o, sum);
  };
  for (int64_t n = 0; n < g.n; ++n)
    for (int64_t o = 0; o < g.o; ++o)
      for (int64_t oh = 0; oh < g.oh; ++oh)
        for (int64_t ow = 0; ow < g.ow; ++ow) pixel(n, o, oh, ow);
}

Support supports_linear(const QuantizedLinearParams&, const Specs&) {
  return Support::yes().with_contiguous({0, 1, 2, 3});
}

void run_linear(const QuantizedLinearParams& p, const Call& call) {
  const Shape& w = call.in[1].shape();
  const int64_t rows = w[0] == 0 ? 0 : call.out[0].numel() / w[0];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < w[0]; ++o) {
      int64_t sum = 0;
      for (int64_t k = 0; k < w[1]; ++k)
        sum +=
            int64_t{integer(p.x, call.in[0], r * w[1] + k)} * call.in[1].as<int8_t>()[o * w[1] + k];
      call.out[0].as<float>()[r * w[0] + o] = finished(call, o, sum);
    }
}

}  // namespace

Kernel quantized_conv2d_reference_kernel() {
  return kernel<supports<QuantizedConv2dParams>, run_conv>("reference");
}
Kernel quantized_linear_reference_kernel() {
  return kernel<supports_linear, run_linear>("reference");
}

}  // namespace mica

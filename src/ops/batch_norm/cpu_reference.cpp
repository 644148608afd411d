#include <cmath>

#include "mica/core/dtype_switch.h"
#include "mica/ops/batch_norm/statistics.h"

namespace mica {
namespace {

// The values of one channel of an (N, C, …) tensor of any strides.
template <class T>
class Channel {
 public:
  Channel(const Arg& arg, int64_t channel)
      : data_(arg.as<T>() + channel * arg.strides()[1]),
        shape_(arg.shape()),
        strides_(arg.strides()) {}

  T& operator[](int64_t index) const {
    int64_t at = 0;
    for (int d = shape_.rank() - 1; d >= 0; --d) {
      if (d == 1) continue;
      at += index % shape_[d] * strides_[d];
      index /= shape_[d];
    }
    return data_[at];
  }

 private:
  T* data_;
  const Shape& shape_;
  const Strides& strides_;
};

void run(const BatchNormParams& params, const Call& call) {
  const int64_t channels = call.in[0].shape()[1];
  if (channels == 0) return;
  const int64_t count = call.in[0].numel() / channels;
  switch_float(call.in[0].dtype(), "batch_norm", [&]<class T>() {
    using S = Compute<T>;
    for (int64_t c = 0; c < channels; ++c) {
      const Channel<T> x(call.in[0], c), y(call.out[0], c);
      double mean = 0;
      double variance = 0;
      if (!params.training) {
        mean = static_cast<double>(channel_value<S>(call.in[3], c, 0));
        variance = static_cast<double>(channel_value<S>(call.in[4], c, 0));
      } else if (count > 0) {
        // Relative to one of the values, so that a large mean does not cost digits of the small
        // rest.
        const double first = static_cast<double>(x[0]);
        for (int64_t i = 0; i < count; ++i) mean += static_cast<double>(x[i]) - first;
        mean = first + mean / static_cast<double>(count);
        for (int64_t i = 0; i < count; ++i) {
          const double d = static_cast<double>(x[i]) - mean;
          variance += d * d;
        }
        variance /= static_cast<double>(count);
        update_running<S>(params, call, c, mean, variance, static_cast<double>(count));
      }
      const double invstd = 1 / std::sqrt(variance + params.eps);
      const double scale = invstd * static_cast<double>(channel_value<S>(call.in[1], c, 1));
      const double shift = static_cast<double>(channel_value<S>(call.in[2], c, 0));
      for (int64_t i = 0; i < count; ++i) {
        y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * scale + shift);
      }
      call.out[1].as<S>()[c] = static_cast<S>(mean);
      call.out[2].as<S>()[c] = static_cast<S>(invstd);
    }
  });
}

void run_grad(const BatchNormParams& params, const Call& call) {
  const int64_t channels = call.in[1].shape()[1];
  if (channels == 0) return;
  const int64_t count = call.in[1].numel() / channels;
  switch_float(call.in[1].dtype(), "batch_norm_grad", [&]<class T>() {
    using S = Compute<T>;
    for (int64_t c = 0; c < channels; ++c) {
      const Channel<T> dy(call.in[0], c), x(call.in[1], c), dx(call.out[0], c);
      const double mean = static_cast<double>(channel_value<S>(call.in[3], c, 0));
      const double invstd = static_cast<double>(channel_value<S>(call.in[4], c, 1));
      const double weight = static_cast<double>(channel_value<S>(call.in[2], c, 1));
      const auto normalised = [&](int64_t i) {
        return (static_cast<double>(x[i]) - mean) * invstd;
      };
      const auto slope = [&](int64_t i) { return static_cast<double>(dy[i]); };
      double dweight = 0;
      double dbias = 0;
      for (int64_t i = 0; i < count; ++i) {
        dbias += slope(i);
        dweight += slope(i) * normalised(i);
      }
      for (int64_t i = 0; i < count; ++i) {
        double d = slope(i);
        if (params.training) d -= (dbias + normalised(i) * dweight) / static_cast<double>(count);
        dx[i] = static_cast<T>(d * weight * invstd);
      }
      call.out[1].as<S>()[c] = static_cast<S>(dweight);
      call.out[2].as<S>()[c] = static_cast<S>(dbias);
    }
  });
}

}  // namespace

Kernel batch_norm_reference_kernel() {
  return kernel<supports_all<BatchNormParams>, run>("reference");
}
Kernel batch_norm_grad_reference_kernel() {
  return kernel<supports_all<BatchNormParams>, run_grad>("reference");
}

}  // namespace mica

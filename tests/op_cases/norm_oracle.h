#pragma once

// Batch norm and its gradient without the library.
#include <cmath>

#include "mica/ops/batch_norm/batch_norm.h"
#include "tests/op_cases/op_case.h"

namespace mica::cases {

/// Values in each channel of (N, C, …).
inline double count_of(const HostArray& x) {
  const auto channels = static_cast<double>(x.shape[1]);
  return channels > 0 ? static_cast<double>(x.values.size()) / channels : 0;
}

/// The values of each channel of (N, C, …): calls f(channel, index).
template <class F>
void each_value(const Shape& shape, F&& f) {
  int64_t inner = 1;
  for (int i = 2; i < shape.rank(); ++i) inner *= shape[i];
  for (int64_t i = 0; i < numel(shape); ++i)
    f(static_cast<size_t>(i / inner % shape[1]), static_cast<size_t>(i));
}

struct Statistics {
  std::vector<double> mean, variance;
};

inline Statistics statistics_of(const HostArray& x) {
  const auto channels = static_cast<size_t>(x.shape[1]);
  const double count = count_of(x);
  Statistics s{std::vector<double>(channels), std::vector<double>(channels)};
  each_value(x.shape, [&](size_t c, size_t i) { s.mean[c] += x.values[i] / count; });
  each_value(x.shape, [&](size_t c, size_t i) {
    s.variance[c] += std::pow(x.values[i] - s.mean[c], 2) / count;
  });
  return s;
}

inline double or_else(const HostArray& a, size_t c, double value) {
  return a.values.empty() ? value : a.values[c];
}

/// y, then the running statistics where there are any.
inline std::vector<HostArray> normalised(const HostArgs& in, const BatchNormParams& p) {
  const auto channels = static_cast<size_t>(in[0].shape[1]);
  const bool running = !in[3].values.empty();
  Statistics s = p.training ? statistics_of(in[0]) : Statistics{in[3].values, in[4].values};
  HostArray y = in[0];
  each_value(y.shape, [&](size_t c, size_t i) {
    y.values[i] =
        (y.values[i] - s.mean[c]) / std::sqrt(s.variance[c] + p.eps) * or_else(in[1], c, 1) +
        or_else(in[2], c, 0);
  });
  if (!running) return {y};
  HostArray mean = in[3];
  HostArray variance = in[4];
  const double count = count_of(in[0]);
  for (size_t c = 0; c < channels && p.training && count > 0; ++c) {
    mean.values[c] = (1 - p.momentum) * mean.values[c] + p.momentum * s.mean[c];
    variance.values[c] =
        (1 - p.momentum) * variance.values[c] + p.momentum * s.variance[c] * count / (count - 1);
  }
  return {y, mean, variance};
}

/// Of dy, x, weight, mean, 1/std: dx, dweight, dbias.
inline std::vector<HostArray> norm_gradients(const HostArgs& in, const BatchNormParams& p) {
  const auto n = static_cast<size_t>(in[0].shape[1]);
  const double count = count_of(in[0]);
  HostArray dx = in[0];
  HostArray dw{{static_cast<int64_t>(n)}, std::vector<double>(n)};
  HostArray db = dw;
  const auto normal = [&](size_t k, size_t i) {
    return (in[1].values[i] - in[3].values[k]) * in[4].values[k];
  };
  each_value(dx.shape, [&](size_t k, size_t i) {
    db.values[k] += in[0].values[i];
    dw.values[k] += in[0].values[i] * normal(k, i);
  });
  each_value(dx.shape, [&](size_t k, size_t i) {
    double d = in[0].values[i];
    if (p.training) d -= (db.values[k] + normal(k, i) * dw.values[k]) / count;
    dx.values[i] = d * or_else(in[2], k, 1) * in[4].values[k];
  });
  return std::vector{dx, dw, db};
}

}  // namespace mica::cases

#include <cmath>

#include "mica/ops/group_norm/cpu.h"
#include "mica/ops/reference.h"

namespace mica {
namespace {

void run(const GroupNormParams& p, const Call& call) {
  const GroupShape s(call.in[0].shape(), p.groups);
  const DoubleValues x(call.in[0]), weight(call.in[1], 1), bias(call.in[2]), y(call.out[0]);
  const auto count = static_cast<double>(s.count());
  for (int64_t group = 0; group < s.n * s.groups; ++group) {
    const int64_t first = group * s.count();
    double mean = 0;
    for (int64_t i = 0; i < s.count(); ++i) mean += x[first + i];
    mean /= count;
    double variance = 0;
    for (int64_t i = 0; i < s.count(); ++i) variance += std::pow(x[first + i] - mean, 2);
    const double rstd = 1 / std::sqrt(variance / count + p.eps);
    for (int64_t i = 0; i < s.count(); ++i) {
      const int64_t channel = group % s.groups * s.width + i / s.size;
      y.set(first + i, (x[first + i] - mean) * rstd * weight[channel] + bias[channel]);
    }
    DoubleValues(call.out[1]).set(group, mean);
    DoubleValues(call.out[2]).set(group, rstd);
  }
}

void run_grad(const GroupNormGradParams& p, const Call& call) {
  const GroupShape s(call.in[1].shape(), p.groups);
  const DoubleValues dy(call.in[0]), x(call.in[1]), weight(call.in[2], 1), dx(call.out[0]);
  const DoubleValues means(call.in[3]), rstds(call.in[4]);
  const auto count = static_cast<double>(s.count());
  const auto normal = [&](int64_t group, int64_t i) {
    return (x[group * s.count() + i] - means[group]) * rstds[group];
  };
  for (int64_t group = 0; group < s.n * s.groups; ++group) {
    const auto weighted = [&](int64_t i) {
      return dy[group * s.count() + i] * weight[group % s.groups * s.width + i / s.size];
    };
    double mean = 0;     // of dy * weight
    double product = 0;  // the mean of its product with the normalised values
    for (int64_t i = 0; i < s.count(); ++i) {
      mean += weighted(i) / count;
      product += weighted(i) * normal(group, i) / count;
    }
    for (int64_t i = 0; i < s.count(); ++i)
      dx.set(group * s.count() + i,
             (weighted(i) - mean - normal(group, i) * product) * rstds[group]);
  }
  for (int64_t channel = 0; p.parameters && channel < s.channels(); ++channel) {
    double dweight = 0;
    double dbias = 0;
    for (int64_t image = 0; image < s.n; ++image)
      for (int64_t k = 0; k < s.size; ++k) {
        const int64_t group = image * s.groups + channel / s.width;
        const int64_t i = channel % s.width * s.size + k;
        dweight += dy[group * s.count() + i] * normal(group, i);
        dbias += dy[group * s.count() + i];
      }
    DoubleValues(call.out[1]).set(channel, dweight);
    DoubleValues(call.out[2]).set(channel, dbias);
  }
}

}  // namespace

Kernel group_norm_reference_kernel() {
  return kernel<supports_all<GroupNormParams>, run>("reference");
}
Kernel group_norm_grad_reference_kernel() {
  return kernel<supports_all<GroupNormGradParams>, run_grad>("reference");
}

}  // namespace mica

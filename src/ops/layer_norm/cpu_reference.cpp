#include <cmath>

#include "mica/ops/layer_norm/cpu.h"
#include "mica/ops/reference.h"

namespace mica {
namespace {

template <bool centred>
void run(const LayerNormParams& p, const Call& call) {
  const auto [rows, n] = NormRows(call.in[0].shape(), p.normalized_shape);
  const DoubleValues x(call.in[0]), weight(call.in[1], 1), y(call.out[0]);
  const DoubleValues bias(call.in[centred ? 2 : 1]);
  for (int64_t row = 0; row < rows; ++row) {
    double mean = 0;
    for (int64_t i = 0; centred && i < n; ++i) mean += x[row * n + i];
    mean /= centred ? static_cast<double>(n) : 1;
    double variance = 0;
    for (int64_t i = 0; i < n; ++i) variance += std::pow(x[row * n + i] - mean, 2);
    const double rstd = 1 / std::sqrt(variance / static_cast<double>(n) + p.eps);
    for (int64_t i = 0; i < n; ++i) {
      const double normal = (x[row * n + i] - mean) * rstd;
      y.set(row * n + i, normal * weight[i] + (centred ? bias[i] : 0));
    }
    if (centred) DoubleValues(call.out[1]).set(row, mean);
    DoubleValues(call.out[centred ? 2 : 1]).set(row, rstd);
  }
}

template <bool centred>
void run_grad(const LayerNormGradParams& p, const Call& call) {
  const auto [rows, n] = NormRows(call.in[1].shape(), p.normalized_shape);
  const DoubleValues dy(call.in[0]), x(call.in[1]), weight(call.in[2], 1), dx(call.out[0]);
  const DoubleValues means(call.in[3]), rstds(call.in[centred ? 4 : 3]);
  const auto normal = [&](int64_t row, int64_t i) {
    return (x[row * n + i] - (centred ? means[row] : 0)) * rstds[row];
  };
  for (int64_t row = 0; row < rows; ++row) {
    double mean = 0;     // of dy * weight
    double product = 0;  // the mean of its product with the normalised row
    for (int64_t i = 0; i < n; ++i) {
      const double g = dy[row * n + i] * weight[i] / static_cast<double>(n);
      mean += centred ? g : 0;
      product += g * normal(row, i);
    }
    for (int64_t i = 0; i < n; ++i) {
      const double g = dy[row * n + i] * weight[i];
      dx.set(row * n + i, (g - mean - normal(row, i) * product) * rstds[row]);
    }
  }
  for (int64_t i = 0; p.parameters && i < n; ++i) {
    double dweight = 0;
    double dbias = 0;
    for (int64_t row = 0; row < rows; ++row) {
      dweight += dy[row * n + i] * normal(row, i);
      dbias += dy[row * n + i];
    }
    DoubleValues(call.out[1]).set(i, dweight);
    if (centred) DoubleValues(call.out[2]).set(i, dbias);
  }
}

}  // namespace

Kernel layer_norm_reference_kernel() {
  return kernel<supports_all<LayerNormParams>, run<true>>("reference");
}
Kernel rms_norm_reference_kernel() {
  return kernel<supports_all<LayerNormParams>, run<false>>("reference");
}
Kernel layer_norm_grad_reference_kernel() {
  return kernel<supports_all<LayerNormGradParams>, run_grad<true>>("reference");
}
Kernel rms_norm_grad_reference_kernel() {
  return kernel<supports_all<LayerNormGradParams>, run_grad<false>>("reference");
}

}  // namespace mica

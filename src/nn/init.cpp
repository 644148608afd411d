#include "mica/nn/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica::nn::init {
namespace {

double normal_cdf(double x) { return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2); }

/// The x below which a normal number lies with probability p, to the last bits of a double:
/// Acklam's rational approximation, and one of Halley's steps from there.
double normal_quantile(double p) {
  constexpr double kA[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                           1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double kB[] = {-5.447609879822406e+01, 1.615858368580409e+02,  -1.556989798598866e+02,
                           6.680131188771972e+01,  -1.328068155288572e+01, 1};
  constexpr double kC[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                           -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double kD[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                           3.754408661907416e+00, 1};
  constexpr double kTail = 0.02425;
  constexpr double kMost = 38;  // where the probability of more is no longer a double
  const auto polynomial = [](std::span<const double> c, double x) {
    double y = 0;
    for (const double factor : c) y = y * x + factor;
    return y;
  };
  if (p > 0.5) return -normal_quantile(1 - p);  // exact, and near 1 with more digits
  if (!(p > 0)) return -kMost;
  double x;
  if (p < kTail) {
    const double q = std::sqrt(-2 * std::log(p));
    x = polynomial(kC, q) / polynomial(kD, q);
  } else {
    const double q = p - 0.5;
    x = q * polynomial(kA, q * q) / polynomial(kB, q * q);
  }
  const double u = (normal_cdf(x) - p) * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
  return x - u / (1 + x * u / 2);
}

double fan_of(const Tensor& t, FanMode mode) {
  const Fans f = fans(t.shape());
  return static_cast<double>(mode == FanMode::in ? f.in : f.out);
}

double kaiming_std(const Tensor& t, const KaimingOptions& o) {
  return gain(o.nonlinearity, o.slope) / std::sqrt(fan_of(t, o.mode));
}

double xavier_std(const Tensor& t, double gain) {
  const Fans f = fans(t.shape());
  return gain * std::sqrt(2.0 / static_cast<double>(f.in + f.out));
}

/// Makes the rows of a (rows, columns) matrix orthonormal, by Gram-Schmidt, each projected twice so
/// that nothing is left of the others in it.
void orthonormalize(std::vector<double>& a, int64_t rows, int64_t columns) {
  const auto n = static_cast<size_t>(columns);
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
    double* row = a.data() + i * n;
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t j = 0; j < i; ++j) {
        const double* other = a.data() + j * n;
        double dot = 0;
        for (size_t k = 0; k < n; ++k) dot += row[k] * other[k];
        for (size_t k = 0; k < n; ++k) row[k] -= dot * other[k];
      }
    }
    double squares = 0;
    for (size_t k = 0; k < n; ++k) squares += row[k] * row[k];
    for (size_t k = 0; k < n; ++k) row[k] /= std::sqrt(squares);
  }
}

}  // namespace

Fans fans(const Shape& shape) {
  check<ShapeError>(shape.rank() >= 2,
                    "nn::init: fans need a shape of at least two axes (out, in, …), got {}", shape);
  int64_t field = 1;
  for (int i = 2; i < shape.rank(); ++i) field *= shape[i];
  return {.in = shape[1] * field, .out = shape[0] * field};
}

double gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::tanh:
      return 5.0 / 3.0;
    case Nonlinearity::relu:
      return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu:
      return std::sqrt(2.0 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      break;
  }
  return 1;
}

void constant_(const Tensor& t, double value) {
  const NoGrad guard;
  fill_(t, value);
}
void zeros_(const Tensor& t) { constant_(t, 0); }
void ones_(const Tensor& t) { constant_(t, 1); }

void uniform_(const Tensor& t, double low, double high) {
  const NoGrad guard;
  copy_(t, uniform_like(t, low, high));
}

void normal_(const Tensor& t, double mean, double std) {
  const NoGrad guard;
  copy_(t, normal_like(t, mean, std));
}

void trunc_normal_(const Tensor& t, const TruncNormalOptions& o) {
  check(o.std > 0 && o.low < o.high,
        "nn::init::trunc_normal_: expected std > 0 and low < high, got {}, {} and {}", o.std, o.low,
        o.high);
  const NoGrad guard;
  const double from = normal_cdf((o.low - o.mean) / o.std);
  const double to = normal_cdf((o.high - o.mean) / o.std);
  auto values = uniform(t.shape(), from, to, {.dtype = DType::f64}).to_vector<double>();
  parallel_for(static_cast<int64_t>(values.size()), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double& v = values[static_cast<size_t>(i)];
      v = std::clamp(o.mean + o.std * normal_quantile(v), o.low, o.high);
    }
  });
  copy_(t, tensor(values, t.shape()));
}

void kaiming_uniform_(const Tensor& t, const KaimingOptions& options) {
  const double bound = std::numbers::sqrt3 * kaiming_std(t, options);
  uniform_(t, -bound, bound);
}

void kaiming_normal_(const Tensor& t, const KaimingOptions& options) {
  normal_(t, 0, kaiming_std(t, options));
}

void xavier_uniform_(const Tensor& t, double gain) {
  const double bound = std::numbers::sqrt3 * xavier_std(t, gain);
  uniform_(t, -bound, bound);
}

void xavier_normal_(const Tensor& t, double gain) { normal_(t, 0, xavier_std(t, gain)); }

void orthogonal_(const Tensor& t, double gain) {
  check<ShapeError>(t.rank() >= 2 && t.numel() > 0,
                    "nn::init::orthogonal_: expected at least two axes and elements, got {}",
                    t.shape());
  const NoGrad guard;
  const int64_t rows = t.size(0);
  const int64_t columns = t.numel() / rows;
  const int64_t vectors = std::min(rows, columns);
  const int64_t length = std::max(rows, columns);
  auto q = normal({vectors, length}, 0, 1, {.dtype = DType::f64}).to_vector<double>();
  orthonormalize(q, vectors, length);
  std::vector<double> values(q.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      values[static_cast<size_t>(r * columns + c)] =
          gain * q[static_cast<size_t>(rows <= columns ? r * length + c : c * length + r)];
  copy_(t, tensor(values, t.shape()));
}

void eye_(const Tensor& t) {
  check<ShapeError>(t.rank() == 2, "nn::init::eye_: expected (rows, columns), got {}", t.shape());
  const NoGrad guard;
  copy_(t, eye(t.size(0), t.size(1), {.dtype = t.dtype(), .device = t.device()}));
}

void dirac_(const Tensor& t, int64_t groups) {
  check<ShapeError>(t.rank() >= 3 && t.rank() <= 5 && t.numel() > 0,
                    "nn::init::dirac_: expected (out, in, kernel…) of rank 3 to 5, got {}",
                    t.shape());
  check(groups >= 1 && t.size(0) % groups == 0,
        "nn::init::dirac_: groups must divide {} outputs, got {}", t.size(0), groups);
  const NoGrad guard;
  const int64_t outputs = t.size(0) / groups;
  int64_t field = 1;   // the kernel's size,
  int64_t middle = 0;  // and the place of its middle in it
  for (int i = 2; i < t.rank(); ++i) {
    field *= t.size(i);
    middle = middle * t.size(i) + t.size(i) / 2;
  }
  std::vector<double> values(static_cast<size_t>(t.numel()));
  for (int64_t out = 0; out < t.size(0); ++out) {
    const int64_t in = out % outputs;
    if (in < t.size(1)) values[static_cast<size_t>((out * t.size(1) + in) * field + middle)] = 1;
  }
  copy_(t, tensor(values, t.shape()));
}

Initializer constant(double value) {
  return [value](const Tensor& t) { constant_(t, value); };
}

Initializer fan_in_uniform(int64_t fan_in) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
  return [bound](const Tensor& t) { uniform_(t, -bound, bound); };
}

}  // namespace mica::nn::init

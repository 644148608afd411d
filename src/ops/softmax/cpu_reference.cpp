#include <algorithm>
#include <cmath>
#include <limits>

#include "mica/ops/reference.h"
#include "mica/ops/softmax/cpu.h"

namespace mica {
namespace {

/// A line of a tensor along an axis.
class Line {
 public:
  Line(const Arg& arg, int64_t axis, int64_t index)
      : elements_(arg), step_(arg.strides()[static_cast<int>(axis)]) {
    Shape starts = arg.shape();
    starts[static_cast<int>(axis)] = 1;
    start_ = strided_offset(starts, arg.strides(), index);
  }
  double operator[](int64_t i) const { return elements_[start_ + i * step_]; }
  void set(int64_t i, double value) const { elements_.set(start_ + i * step_, value); }

 private:
  DoubleElements elements_;
  int64_t step_;
  int64_t start_;
};

/// Calls f(index of line, its length) for every line of the output.
template <class F>
void each_line(const SoftmaxParams& p, const Call& call, F&& f) {
  const int64_t n = call.out[0].numel();
  const int64_t length = call.out[0].shape()[static_cast<int>(p.axis)];
  for (int64_t i = 0; i < n; i += length) f(i / length, length);
}

template <bool logarithm>
void run(const SoftmaxParams& p, const Call& call) {
  each_line(p, call, [&](int64_t line, int64_t n) {
    const Line x(call.in[0], p.axis, line), y(call.out[0], p.axis, line);
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, x[i]);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - largest);
    for (int64_t i = 0; i < n; ++i) {
      const double d = x[i] - largest;
      y.set(i, logarithm ? d - std::log(sum) : std::exp(d) / sum);
    }
  });
}

template <bool logarithm>
void run_grad(const SoftmaxParams& p, const Call& call) {
  each_line(p, call, [&](int64_t line, int64_t n) {
    const Line dy(call.in[0], p.axis, line), y(call.in[1], p.axis, line);
    const Line dx(call.out[0], p.axis, line);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += logarithm ? dy[i] : dy[i] * y[i];
    for (int64_t i = 0; i < n; ++i)
      dx.set(i, logarithm ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum));
  });
}

}  // namespace

Kernel softmax_reference_kernel() {
  return kernel<supports_all<SoftmaxParams>, run<false>>("reference");
}
Kernel log_softmax_reference_kernel() {
  return kernel<supports_all<SoftmaxParams>, run<true>>("reference");
}
Kernel softmax_grad_reference_kernel() {
  return kernel<supports_all<SoftmaxParams>, run_grad<false>>("reference");
}
Kernel log_softmax_grad_reference_kernel() {
  return kernel<supports_all<SoftmaxParams>, run_grad<true>>("reference");
}

}  // namespace mica

#pragma once

#include <cmath>

#include "tests/op_cases/conv_oracle.h"

namespace mica::cases {

/// The windows along one axis: the inputs of each output, and what it counts in a divisor.
struct HostWindows {
  struct Window {
    std::vector<int64_t> inputs;
    int64_t count;
  };
  std::vector<Window> windows;

  struct Options {
    int64_t kernel = 1;
    int64_t stride = 0;
    int64_t padding = 0;
    int64_t dilation = 1;
    bool ceil_mode = false;
    bool count_include_pad = true;
  };
  /// Windows `stride` apart.
  static HostWindows plain(int64_t size, const Options& o) {
    HostWindows result;
    const int64_t stride = o.stride == 0 ? o.kernel : o.stride;
    for (int64_t start = -o.padding;; start += stride) {
      const int64_t end = start + (o.kernel - 1) * o.dilation + 1;
      // The last window ends inside the padding or, with ceil_mode, starts before it.
      if (end > size + o.padding &&
          (!o.ceil_mode || start >= size || end - stride >= size + o.padding))
        break;
      Window w{{}, 0};
      for (int64_t i = start; i < end; i += o.dilation)
        if (i >= 0 && i < size) w.inputs.push_back(i);
      w.count = o.count_include_pad ? std::min(end, size + o.padding) - start
                                    : static_cast<int64_t>(w.inputs.size());
      result.windows.push_back(w);
    }
    return result;
  }
  /// `outputs` nearly equal parts.
  static HostWindows adaptive(int64_t size, int64_t outputs) {
    HostWindows result;
    for (int64_t o = 0; o < outputs; ++o) {
      Window w{{}, 0};
      for (int64_t i = 0; i < size; ++i)
        if ((i + 1) * outputs > o * size && i * outputs < (o + 1) * size) w.inputs.push_back(i);
      w.count = static_cast<int64_t>(w.inputs.size());
      result.windows.push_back(w);
    }
    return result;
  }
};

/// Pooling over one to three axes: each window's inputs are given to f as indices into x, in order,
/// with the product of the axes' counts.
template <class F>
Shape each_window(const Shape& x, const std::vector<HostWindows>& axes, F&& f) {
  Shape y = {x[0], x[1]};
  Shape volume;
  std::vector<HostWindows> all(3 - axes.size(), HostWindows::adaptive(1, 1));
  all.insert(all.end(), axes.begin(), axes.end());
  for (size_t i = 0; i < axes.size(); ++i) {
    y.push_back(static_cast<int64_t>(axes[i].windows.size()));
    volume.push_back(x[static_cast<int>(i) + 2]);
  }
  const Shape in = HostConv::lift(volume, 0, 1);
  for (int64_t plane = 0; plane < x[0] * x[1]; ++plane)
    for (const auto& d : all[0].windows)
      for (const auto& h : all[1].windows)
        for (const auto& w : all[2].windows) {
          std::vector<int64_t> inputs;
          for (const int64_t i : d.inputs)
            for (const int64_t j : h.inputs)
              for (const int64_t k : w.inputs)
                inputs.push_back(plane * numel(in) + (i * in[1] + j) * in[2] + k);
          f(inputs, static_cast<double>(d.count * h.count * w.count));
        }
  return y;
}

struct Pooled {
  HostArray y, positions;
};

inline Pooled host_max(const HostArray& x, const std::vector<HostWindows>& axes) {
  Pooled out;
  int64_t plane = 1;
  for (int i = 2; i < x.shape.rank(); ++i) plane *= x.shape[i];
  out.y.shape = each_window(x.shape, axes, [&](const std::vector<int64_t>& inputs, double) {
    int64_t best = inputs[0];
    const auto value = [&](int64_t i) { return x.values[at(i)]; };
    for (const int64_t i : inputs)
      if (!std::isnan(value(best)) && (std::isnan(value(i)) || value(i) > value(best))) best = i;
    out.y.values.push_back(value(best));
    out.positions.values.push_back(static_cast<double>(best % plane));
  });
  out.positions.shape = out.y.shape;
  return out;
}

/// The divisor is 0 where it is the count.
inline HostArray host_average(const HostArray& x, const std::vector<HostWindows>& axes,
                              int64_t divisor = 0) {
  HostArray y;
  y.shape = each_window(x.shape, axes, [&](const std::vector<int64_t>& inputs, double count) {
    double sum = 0;
    for (const int64_t i : inputs) sum += x.values[at(i)];
    y.values.push_back(sum / (divisor > 0 ? static_cast<double>(divisor) : count));
  });
  return y;
}

/// Gradient of host_average for an input of shape `x`.
inline HostArray host_spread(const HostArray& dy, const Shape& x,
                             const std::vector<HostWindows>& axes, int64_t divisor = 0) {
  HostArray dx = zeros_of(x);
  size_t output = 0;
  each_window(x, axes, [&](const std::vector<int64_t>& inputs, double count) {
    const double d = divisor > 0 ? static_cast<double>(divisor) : count;
    for (const int64_t i : inputs) dx.values[at(i)] += dy.values[output] / d;
    ++output;
  });
  return dx;
}

/// f16 and bf16 hold fewer distinct values than some samples have elements.
inline std::vector<DType> dtypes_for_distinct(const Shape& x) {
  if (numel(x) <= 200) return kFloats;
  return {DType::f64, DType::f32, DType::f16};
}

}  // namespace mica::cases

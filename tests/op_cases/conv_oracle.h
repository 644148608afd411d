#pragma once

#include "tests/op_cases/op_case.h"

namespace mica::cases {

inline size_t at(int64_t i) { return static_cast<size_t>(i); }
inline HostArray zeros_of(const Shape& shape) {
  return {shape, std::vector<double>(at(numel(shape)))};
}

/// A convolution of one to three axes, written as one of three.
struct HostConv {
  Shape x, w, y;  ///< (N, C, D, H, W), (O, C / groups, kD, kH, kW), (N, O, D', H', W')
  Dims stride, before, after, dilation;
  int64_t groups;

  struct Options {
    Dims stride, before, after, dilation;
    int64_t groups = 1;
  };

  HostConv(const Shape& x_shape, const Shape& w_shape, const Options& o)
      : x(lift(x_shape, 2, 1)),
        w(lift(w_shape, 2, 1)),
        stride(lift(o.stride, 0, 1)),
        before(lift(o.before, 0, 0)),
        after(lift(o.after, 0, 0)),
        dilation(lift(o.dilation, 0, 1)),
        groups(o.groups) {
    y = {x[0], w[0]};
    for (int i = 0; i < 3; ++i)
      y.push_back((x[i + 2] + before[i] + after[i] - dilation[i] * (w[i + 2] - 1) - 1) / stride[i] +
                  1);
  }

  /// Calls f(index in y, index in x, index in w) for every product.
  template <class F>
  void each(F&& f) const {
    for (int64_t i = 0; i < numel(y); ++i) {
      const Dims out = place(i, y);
      for (int64_t k = 0; k < numel(w) / w[0]; ++k) {
        const Dims tap = place(out[1] * (numel(w) / w[0]) + k, w);
        Dims in = {out[0], out[1] / (w[0] / groups) * w[1] + tap[1]};
        bool inside = true;
        for (int axis = 0; axis < 3; ++axis) {
          in.push_back(out[axis + 2] * stride[axis] - before[axis] +
                       tap[axis + 2] * dilation[axis]);
          inside = inside && in[axis + 2] >= 0 && in[axis + 2] < x[axis + 2];
        }
        if (inside) f(i, index(in, x), out[1] * (numel(w) / w[0]) + k);
      }
    }
  }

  /// The axes that are really there, of y.
  Shape y_shape(int rank) const {
    Shape shape = {y[0], y[1]};
    for (int i = 7 - rank; i < 5; ++i) shape.push_back(y[i]);
    return shape;
  }

  /// Puts axes of size `one` after the first `kept` until there are kept + 3.
  static Dims lift(const Dims& d, int kept, int64_t one) {
    Dims full;
    for (int i = 0; i < kept; ++i) full.push_back(d[i]);
    for (int i = d.rank(); i < kept + 3; ++i) full.push_back(one);
    for (int i = kept; i < d.rank(); ++i) full.push_back(d[i]);
    return full;
  }

 private:
  static Dims place(int64_t i, const Shape& shape) {
    Dims p = Dims::filled(shape.rank(), 0);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      p[axis] = i % shape[axis];
      i /= shape[axis];
    }
    return p;
  }
  static int64_t index(const Dims& p, const Shape& shape) {
    int64_t i = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) i = i * shape[axis] + p[axis];
    return i;
  }
};

/// y (N, O, …) of a convolution; b may be empty.
inline HostArray host_conv(const HostConv& conv, const HostArray& x, const HostArray& w,
                           const std::vector<double>& b) {
  HostArray y = zeros_of(conv.y_shape(x.shape.rank()));
  conv.each([&](int64_t i, int64_t j, int64_t k) {
    y.values[at(i)] += x.values[at(j)] * w.values[at(k)];
  });
  const int64_t plane = conv.y[2] * conv.y[3] * conv.y[4];
  for (size_t i = 0; i < y.values.size() && !b.empty(); ++i)
    y.values[i] += b[i / at(plane) % b.size()];
  return y;
}

}  // namespace mica::cases

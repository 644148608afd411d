#include <algorithm>
#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// Calls f(indices of one line along the axis) for every line.
template <class F>
void each_line(const Shape& shape, int axis, F&& f) {
  int64_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const int64_t n = shape[axis];
  for (int64_t i = 0; i < numel(shape); ++i) {
    if (i / inner % n != 0) continue;
    std::vector<size_t> line;
    line.reserve(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) line.push_back(static_cast<size_t>(i + k * inner));
    f(line);
  }
}

std::vector<HostArray> softmax_of(const HostArray& x, int axis, bool logarithm) {
  HostArray y = x;
  each_line(x.shape, axis, [&](const std::vector<size_t>& line) {
    double largest = -INFINITY;
    for (const size_t i : line) largest = std::max(largest, x.values[i]);
    double sum = 0;
    for (const size_t i : line) sum += std::exp(x.values[i] - largest);
    for (const size_t i : line)
      y.values[i] =
          logarithm ? x.values[i] - largest - std::log(sum) : std::exp(x.values[i] - largest) / sum;
  });
  return {y};
}

std::vector<HostArray> gradient_of(const HostArray& dy, const HostArray& y, int axis,
                                   bool logarithm) {
  HostArray dx = dy;
  each_line(y.shape, axis, [&](const std::vector<size_t>& line) {
    double sum = 0;
    for (const size_t i : line) sum += dy.values[i] * (logarithm ? 1 : y.values[i]);
    for (const size_t i : line)
      dx.values[i] = logarithm ? dy.values[i] - std::exp(y.values[i]) * sum
                               : y.values[i] * (dy.values[i] - sum);
  });
  return {dx};
}

struct Setup {
  const char* name;
  Shape shape;
  int axis;
};

std::vector<Setup> setups() {
  return {{"rows", {5, 7}, 1},
          {"long rows", {3, 267}, 1},
          {"columns", {6, 11}, 0},
          {"channels", {2, 5, 3, 4}, 1},
          {"many channels", {2, 37, 2, 3}, 1},
          {"height", {2, 3, 5, 4}, 2},
          {"width", {2, 3, 4, 5}, 3},
          {"images", {5, 2, 2, 3}, 0},
          {"middle, wide", {2, 3, 41}, 1},
          {"a line of one", {3, 1, 2}, 1},
          {"one element", {1}, 0},
          {"empty", {3, 0}, 0},
          {"empty lines", {3, 0}, 1}};
}

/// Lines that more threads share, and more than can hold all of one.
std::vector<Setup> large_setups() {
  return {{"rows of a block", {3, 3001}, 1},
          {"very long rows", {2, 33001}, 1},
          {"long columns", {2, 301, 5}, 1}};
}
Sample large(Sample sample) {
  sample.dtypes = {DType::f32, DType::bf16};
  sample.gradient = false;
  return sample;
}

OpCase forward_case(bool logarithm) {
  const char* op = logarithm ? "log_softmax" : "softmax";
  OpCase c{.op = op, .samples = {}};
  const auto sample = [=](const char* name, Input in, int axis) {
    const int rank = in.shape.rank();
    return Sample{.name = name,
                  .in = {std::move(in)},
                  .call = [=](const Args& a) -> Tensors {
                    return {logarithm ? log_softmax(a[0], axis) : softmax(a[0], axis - rank)};
                  },
                  .oracle = [=](const HostArgs& h) { return softmax_of(h[0], axis, logarithm); }};
  };
  for (const Setup& s : setups()) c.samples.push_back(sample(s.name, x(s.shape), s.axis));
  for (const Setup& s : large_setups())
    c.samples.push_back(large(sample(s.name, x(s.shape), s.axis)));
  for (const int axis : {0, 1}) {
    Sample threads =
        sample(axis ? "several threads, rows" : "several threads, columns", x({160, 140}), axis);
    threads.dtypes = {DType::f32};
    threads.gradient = false;
    c.samples.push_back(threads);
    const double inf = INFINITY;
    Sample infinite = sample(
        axis ? "infinities, rows" : "infinities, columns",
        x({4, 4}).of({-inf, 1, 2, -inf, -inf, -inf, -inf, -inf, 1, inf, 2, 3, NAN, 1, 2, 3}), axis);
    infinite.gradient = false;
    c.samples.push_back(infinite);
    Sample far =
        sample(axis ? "large, rows" : "large, columns", x({9, 10}).in(-60000, 60000), axis);
    far.gradient = false;
    c.samples.push_back(far);
    Sample masked = sample(axis ? "masked, rows" : "masked, columns",
                           x({3, 3}).of({-inf, 1, 2, 0, -inf, 1, 2, 3, -inf}), axis);
    masked.gradient = false;
    c.samples.push_back(masked);
  }
  const auto call = [=](const Tensor& in, int64_t axis) {
    logarithm ? log_softmax(in, axis) : softmax(in, axis);
  };
  const std::string name = op;
  c.bad = {bad<IndexError>(name + ": axis must be in [-2, 2), got 2",
                           [=](Device d) { call(zeros({2, 3}, {.device = d}), 2); }),
           bad<DTypeError>(name + ": expected a floating dtype, got i64",
                           [=](Device d) { call(zeros({2, 3}, {DType::i64, d}), 1); })};
  return c;
}

OpCase backward_case(bool logarithm) {
  const char* op = logarithm ? "log_softmax_grad" : "softmax_grad";
  OpCase c{.op = op, .samples = {}};
  const auto apply = [=](const Tensor& dy, const Tensor& y, int64_t axis) {
    return logarithm ? log_softmax_grad(dy, y, axis) : softmax_grad(dy, y, axis);
  };
  const auto sample = [=](const char* name, const Shape& shape, int axis) {
    return Sample{
        .name = name,
        .in = {x(shape), logarithm ? x(shape).in(-6, 0) : x(shape).in(0, 1)},
        .call = [=](const Args& a) -> Tensors { return {apply(a[0], a[1], axis)}; },
        .oracle = [=](const HostArgs& h) { return gradient_of(h[0], h[1], axis, logarithm); }};
  };
  for (const Setup& s : setups()) c.samples.push_back(sample(s.name, s.shape, s.axis));
  for (const Setup& s : large_setups()) c.samples.push_back(large(sample(s.name, s.shape, s.axis)));
  c.samples[7].layouts = false;  // its gradient is a sum over the images of channels_last
  for (const int axis : {0, 1}) {
    Sample threads =
        sample(axis ? "several threads, rows" : "several threads, columns", {160, 140}, axis);
    threads.dtypes = {DType::f32};
    threads.gradient = false;
    c.samples.push_back(threads);
  }
  const std::string name = op;
  c.bad = {bad<ShapeError>(name + ": dy and y must have one shape, got [2, 3] and [3]",
                           [=](Device d) {
                             apply(zeros({2, 3}, {.device = d}), zeros({3}, {.device = d}), 0);
                           }),
           bad<DTypeError>(
               name + ": dy and y must have one dtype, got f32 and f64",
               [=](Device d) { apply(zeros({3}, {.device = d}), zeros({3}, {DType::f64, d}), 0); }),
           bad<IndexError>(name + ": axis must be in [-1, 1), got -2", [=](Device d) {
             apply(zeros({3}, {.device = d}), zeros({3}, {.device = d}), -2);
           })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{forward_case(false), forward_case(true), backward_case(false),
                             backward_case(true)};
});

}  // namespace
}  // namespace mica::cases

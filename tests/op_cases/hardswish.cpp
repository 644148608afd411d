#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

double value(double x) { return x <= -3 ? 0 : x < 3 ? x * (x + 3) / 6 : x; }
double slope(double x) { return x <= -3 ? 0 : x < 3 ? x / 3 + 0.5 : 1; }

Tensors forward(const Args& a) { return {hardswish(a[0])}; }
Tensors backward(const Args& a) { return call_op("hardswish_grad", NoParams{}, {a[0], a[1]}); }

std::vector<HostArray> forward_oracle(const HostArgs& in) {
  HostArray out = in[0];
  for (double& v : out.values) v = value(v);
  return {out};
}

std::vector<HostArray> backward_oracle(const HostArgs& in) {
  HostArray out = in[0];
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] *= slope(in[1].values[i]);
  return {out};
}

// Inputs stay off the kinks at -3 and 3.
const std::vector<double> kBothSides = {-9, -3.5, -2.5, -1, 0, 0.5, 2.5, 3.5, 9, 1, -2, 4};

Sample forward_sample(const char* name, Input in) {
  return {.name = name, .in = {std::move(in)}, .call = forward, .oracle = forward_oracle};
}

Sample backward_sample(const char* name, const Shape& shape, std::vector<double> at) {
  return {.name = name,
          .in = {x(shape), x(shape).of(std::move(at))},
          .call = backward,
          .oracle = backward_oracle};
}

OpCase forward_case() {
  Sample hostile = forward_sample("hostile values", x({16}).of(hostile_values()));
  hostile.gradient = false;
  return {
      .op = "hardswish",
      .samples = {forward_sample("both sides", x({3, 4}).of(kBothSides)),
                  forward_sample("images", x({2, 3, 4, 5})),
                  forward_sample("odd length", x({1037})), forward_sample("one element", x({1})),
                  forward_sample("empty", x({2, 0})), hostile},
      .bad = {bad<DTypeError>("hardswish: expected a floating dtype, got i64",
                              [](Device d) { hardswish(zeros({2}, {DType::i64, d})); })}};
}

OpCase backward_case() {
  return {
      .op = "hardswish_grad",
      .samples = {backward_sample("both sides", {3, 4}, kBothSides),
                  backward_sample("one element", {1}, {1.5}), backward_sample("empty", {0}, {})},
      .bad = {bad<ShapeError>("hardswish_grad: shapes [2] and [3] do not broadcast", [](Device d) {
        call_op("hardswish_grad", NoParams{},
                {zeros({2}, {.device = d}), zeros({3}, {.device = d})});
      })}};
}

const Room kRoom([] { return std::vector<OpCase>{forward_case(), backward_case()}; });

}  // namespace
}  // namespace mica::cases

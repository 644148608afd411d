#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

Sample sample(const char* name, const Shape& shape, LocalResponseNormOptions o) {
  return {.name = name,
          .in = {x(shape)},
          .call = [o](const Args& a) -> Tensors { return {local_response_norm(a[0], o)}; },
          .oracle =
              [o](const HostArgs& in) {
                const Shape& s = in[0].shape;
                int64_t inner = 1;
                for (int i = 2; i < s.rank(); ++i) inner *= s[i];
                HostArray y = in[0];
                for (int64_t i = 0; i < numel(s); ++i) {
                  const int64_t c = i / inner % s[1];
                  double sum = 0;
                  for (int64_t k = c - o.size / 2; k <= c + (o.size - 1) / 2; ++k)
                    if (k >= 0 && k < s[1])
                      sum += std::pow(in[0].values[static_cast<size_t>(i + (k - c) * inner)], 2);
                  y.values[static_cast<size_t>(i)] *=
                      std::pow(o.k + o.alpha * sum / static_cast<double>(o.size), -o.beta);
                }
                return std::vector{y};
              }};
}

OpCase local_response_norm_case() {
  OpCase c{.op = "local_response_norm", .samples = {}};
  c.samples = {sample("images", {2, 7, 3, 2}, {.alpha = 0.5}),
               sample("even size", {2, 6, 5}, {.size = 4, .alpha = 0.5, .beta = 0.5, .k = 2}),
               sample("matrix", {3, 5}, {.size = 3, .alpha = 0.5}),
               sample("the channel alone", {2, 3, 4}, {.size = 1, .alpha = 0.5}),
               sample("wider than the channels", {2, 3, 4}, {.size = 9, .alpha = 0.5}),
               sample("one element", {1, 1, 1}, {.alpha = 0.5}),
               sample("empty", {0, 4, 3, 3}, {})};
  c.bad = {bad<ShapeError>("local_response_norm: input must be [N, C, …], got [3]",
                           [](Device d) { local_response_norm(zeros({3}, {.device = d})); }),
           bad<ShapeError>(
               "local_response_norm: size must be at least 1, got 0",
               [](Device d) { local_response_norm(zeros({2, 3}, {.device = d}), {.size = 0}); }),
           bad<DTypeError>("local_response_norm: expected a floating dtype, got i64",
                           [](Device d) { local_response_norm(zeros({2, 3}, {DType::i64, d})); })};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{local_response_norm_case()}; });

}  // namespace
}  // namespace mica::cases

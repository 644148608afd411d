#include "tests/op_cases/gathered.h"

namespace mica::cases {
namespace {

OpCase triangle_case(const char* op, Tensor (*f)(const Tensor&, int64_t), bool upper) {
  const auto sample = [=](const char* name, const Shape& shape, int64_t diagonal) {
    return Sample{.name = name,
                  .in = {x(shape).in(0, 2)},
                  .call = [=](const Args& a) -> Tensors { return {f(a[0], diagonal)}; },
                  .oracle =
                      [=](const HostArgs& in) {
                        HostArray out = in[0];
                        size_t at = 0;
                        each_index(shape, [&](const Dims& index) {
                          const int64_t right = index.back() - index[shape.rank() - 2];
                          if (upper ? right < diagonal : right > diagonal) out.values[at] = 0;
                          ++at;
                        });
                        return std::vector{out};
                      },
                  .dtypes = kEveryDType};
  };
  Sample large = sample("several threads", {3, 150, 160}, 5);
  large.dtypes = {DType::f32};
  large.gradient = false;
  Sample hostile = sample("hostile values", {4, 4}, 0);
  hostile.in = {x({4, 4}).of(hostile_values())};
  hostile.dtypes = kFloats;
  hostile.gradient = false;
  const std::string name = op;
  return {
      .op = op,
      .samples = {sample("square", {4, 4}, 0), sample("wide", {3, 5}, 1),
                  sample("high", {5, 3}, -2), sample("a batch", {2, 3, 4}, 0),
                  sample("images", {2, 3, 4, 5}, -1), sample("all of it", {3, 3}, -9),
                  sample("far above", {3, 3}, std::numeric_limits<int64_t>::max()),
                  sample("far below", {3, 3}, std::numeric_limits<int64_t>::min()),
                  sample("one element", {1, 1}, 0), sample("empty", {2, 0, 3}, 0), large, hostile},
      .bad = {bad<ShapeError>(name + ": expected at least 2 dimensions, got [3]",
                              [f](Device d) { f(zeros({3}, {.device = d}), 0); })}};
}

const Room kRoom([] {
  return std::vector<OpCase>{triangle_case("tril", tril, false), triangle_case("triu", triu, true)};
});

}  // namespace
}  // namespace mica::cases

#include "tests/op_cases/gathered.h"

namespace mica::cases {
namespace {

OpCase flip_case() {
  const auto sample = [](const char* name, const Shape& shape, const Dims& axes) {
    return Sample{.name = name,
                  .in = {x(shape).in(0, 2)},
                  .call = [=](const Args& a) -> Tensors { return {flip(a[0], axes)}; },
                  .oracle =
                      [=](const HostArgs& in) {
                        return gathered(in[0], shape, [&](const Dims& index) {
                          Dims from = index;
                          for (const int64_t axis : axes) {
                            const int a = static_cast<int>((axis + shape.rank()) % shape.rank());
                            from[a] = shape[a] - 1 - index[a];
                          }
                          return from;
                        });
                      },
                  .dtypes = kEveryDType};
  };
  Sample large = sample("several threads", {3, 50001}, {1});
  large.dtypes = {DType::f32, DType::u8};
  large.gradient = false;
  return {.op = "flip",
          .samples = {sample("last axis", {3, 19}, {1}), sample("first axis", {5, 4}, {0}),
                      sample("middle", {2, 3, 4}, {-2}), sample("all", {2, 3, 4}, {0, 1, 2}),
                      sample("images", {2, 3, 4, 5}, {2, 3}), sample("none", {2, 3}, {}),
                      sample("size of 1", {3, 1, 2}, {1}), sample("one element", {1}, {0}),
                      sample("0-d", {}, {}), sample("empty", {0, 2}, {0, 1}), large},
          .bad = {bad<IndexError>("flip: axis must be in [-2, 2), got 2",
                                  [](Device d) { flip(zeros({2, 3}, {.device = d}), {2}); }),
                  bad<ShapeError>("flip: axes [1, 1] name one twice",
                                  [](Device d) { flip(zeros({2, 3}, {.device = d}), {1, -1}); })}};
}

OpCase roll_case() {
  const auto sample = [](const char* name, const Shape& shape, const Dims& shifts,
                         const Dims& axes) {
    return Sample{.name = name,
                  .in = {x(shape).in(0, 2)},
                  .call = [=](const Args& a) -> Tensors { return {roll(a[0], shifts, axes)}; },
                  .oracle =
                      [=](const HostArgs& in) {
                        return gathered(in[0], shape, [&](const Dims& index) {
                          Dims from = index;
                          for (int i = 0; i < axes.rank(); ++i) {
                            const int a = static_cast<int>((axes[i] + shape.rank()) % shape.rank());
                            from[a] = ((from[a] - shifts[i]) % shape[a] + shape[a]) % shape[a];
                          }
                          return from;
                        });
                      },
                  .dtypes = kEveryDType};
  };
  Sample flat = sample("flattened", {2, 3}, {2}, {});
  flat.oracle = [](const HostArgs& in) {
    HostArray out = in[0];
    std::rotate(out.values.begin(), out.values.end() - 2, out.values.end());
    return std::vector{out};
  };
  Sample large = sample("several threads", {70001}, {-5}, {0});
  large.dtypes = {DType::f32};
  large.gradient = false;
  return {
      .op = "roll",
      .samples = {sample("last axis", {3, 7}, {2}, {1}), sample("back", {5, 4}, {-1}, {0}),
                  sample("both", {4, 5}, {1, -2}, {0, -1}),
                  sample("more than the size", {5}, {13}, {0}),
                  sample("one axis twice", {5, 2}, {1, 3}, {0, 0}),
                  sample("images", {2, 3, 4, 5}, {1, 2}, {2, 3}), flat,
                  sample("one element", {1}, {3}, {0}), sample("empty", {0, 2}, {1}, {0}), large},
      .bad = {bad<IndexError>("roll: axis must be in [-2, 2), got 2",
                              [](Device d) { roll(zeros({2, 3}, {.device = d}), {1}, {2}); }),
              bad<ShapeError>("roll: 2 shifts [1, 2] for 1 axes [0]",
                              [](Device d) { roll(zeros({2, 3}, {.device = d}), {1, 2}, {0}); }),
              bad<ShapeError>("roll: without axes expected one shift, got [1, 2]",
                              [](Device d) { roll(zeros({2, 3}, {.device = d}), {1, 2}); })}};
}

const Room kRoom([] { return std::vector<OpCase>{flip_case(), roll_case()}; });

}  // namespace
}  // namespace mica::cases

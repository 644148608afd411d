#include "tests/op_cases/gathered.h"

namespace mica::cases {
namespace {

OpCase reshape_case() {
  const auto sample = [](const char* name, const Shape& from, const Shape& to,
                         const Shape& result) {
    return Sample{
        .name = name,
        .in = {x(from).in(0, 2)},
        .call = [=](const Args& a) -> Tensors { return {reshape(a[0], to)}; },
        .oracle = [=](const HostArgs& in) { return std::vector{HostArray{result, in[0].values}}; },
        .dtypes = kEveryDType};
  };
  return {
      .op = "reshape",
      .samples = {sample("join", {2, 3, 4}, {6, 4}, {6, 4}),
                  sample("split", {6, 4}, {2, 3, 2, 2}, {2, 3, 2, 2}),
                  sample("open size", {2, 3, 4}, {-1, 2}, {12, 2}),
                  sample("flatten images", {2, 3, 4, 5}, {2, -1}, {2, 60}),
                  sample("ones", {3, 1, 2}, {1, 3, 2, 1}, {1, 3, 2, 1}),
                  sample("to 0-d", {1}, {}, {}), sample("one element", {1, 1}, {1}, {1}),
                  sample("empty", {0, 3}, {3, 0}, {3, 0})},
      .bad = {bad<ShapeError>("reshape: [2, 3] has 6 elements, [4] has 4",
                              [](Device d) { reshape(zeros({2, 3}, {.device = d}), {4}); }),
              bad<ShapeError>("reshape: only one size may be -1, got [-1, -1]",
                              [](Device d) { reshape(zeros({2, 3}, {.device = d}), {-1, -1}); }),
              bad<ShapeError>("reshape: [2, 3] does not divide into [4, -1]",
                              [](Device d) { reshape(zeros({2, 3}, {.device = d}), {4, -1}); }),
              bad<ShapeError>("reshape: a size must be at least 0, or -1, got [-2, -3]",
                              [](Device d) { reshape(zeros({2, 3}, {.device = d}), {-2, -3}); }),
              bad<ShapeError>("shape [4294967296, 4294967296, 1] has more than 2^63 elements",
                              [](Device d) {
                                constexpr int64_t kLarge = int64_t{1} << 32;
                                reshape(zeros({0}, {.device = d}), {kLarge, kLarge, -1});
                              })}};
}

OpCase permute_case() {
  const auto sample = [](const char* name, const Shape& shape, const Dims& axes) {
    return Sample{
        .name = name,
        .in = {x(shape).in(0, 2)},
        .call = [=](const Args& a) -> Tensors { return {permute(a[0], axes)}; },
        .oracle =
            [=](const HostArgs& in) {
              Shape result = shape;
              for (int i = 0; i < axes.rank(); ++i)
                result[i] = shape[static_cast<int>((axes[i] + axes.rank()) % axes.rank())];
              return gathered(in[0], result, [&](const Dims& index) {
                Dims from = index;
                for (int i = 0; i < axes.rank(); ++i)
                  from[static_cast<int>((axes[i] + axes.rank()) % axes.rank())] = index[i];
                return from;
              });
            },
        .dtypes = kEveryDType};
  };
  return {.op = "permute",
          .samples = {sample("transpose", {3, 4}, {1, 0}), sample("rotate", {2, 3, 4}, {2, 0, 1}),
                      sample("negative axes", {2, 3, 4}, {-1, 0, 1}),
                      sample("images", {2, 3, 4, 5}, {0, 2, 3, 1}),
                      sample("one element", {1, 1}, {1, 0}), sample("empty", {0, 3}, {1, 0})},
          .bad = {bad<ShapeError>("permute: a tensor of shape [2, 3] needs 2 axes, got [0]",
                                  [](Device d) { permute(zeros({2, 3}, {.device = d}), {0}); }),
                  bad<ShapeError>("permute: axes [0, 0] name one twice",
                                  [](Device d) { permute(zeros({2, 3}, {.device = d}), {0, 0}); }),
                  bad<IndexError>("permute: axis must be in [-2, 2), got 2", [](Device d) {
                    permute(zeros({2, 3}, {.device = d}), {0, 2});
                  })}};
}

OpCase expand_case() {
  const auto sample = [](const char* name, const Shape& from, const Shape& to) {
    return Sample{.name = name,
                  .in = {x(from).in(0, 2)},
                  .call = [=](const Args& a) -> Tensors { return {expand(a[0], to)}; },
                  .oracle =
                      [=](const HostArgs& in) {
                        return gathered(in[0], to, [&](const Dims& index) {
                          Dims at = Dims::filled(from.rank(), 0);
                          for (int i = 0; i < from.rank(); ++i)
                            at[i] = from[i] == 1 ? 0 : index[i + to.rank() - from.rank()];
                          return at;
                        });
                      }};
  };
  Sample kept = sample("sizes that stay", {2, 1, 3}, {2, 4, 3});
  kept.call = [](const Args& a) -> Tensors { return {expand(a[0], {-1, 4, -1})}; };
  return {.op = "expand",
          .samples = {sample("rows", {1, 4}, {3, 4}), sample("columns", {3, 1}, {3, 4}),
                      sample("new axes", {4}, {2, 3, 4}), sample("0-d", {}, {2, 3}),
                      sample("one element", {1}, {1}), sample("empty", {0, 1}, {0, 5}),
                      sample("to nothing", {1, 3}, {0, 3}), kept},
          .bad = {bad<ShapeError>("expand: [2, 3] does not expand to [4, 3]",
                                  [](Device d) { expand(zeros({2, 3}, {.device = d}), {4, 3}); }),
                  bad<ShapeError>(
                      "expand: a size must be at least 0, or -1 of an axis there is, got [-1, 2]",
                      [](Device d) { expand(zeros({2}, {.device = d}), {-1, 2}); }),
                  bad<ShapeError>("has more than 2^63 elements",
                                  [](Device d) {
                                    constexpr int64_t kLarge = int64_t{1} << 32;
                                    expand(zeros({1, 1}, {.device = d}), {kLarge, kLarge});
                                  }),
                  bad<ShapeError>("expand: cannot lower the rank, [2, 3] to [3]",
                                  [](Device d) { expand(zeros({2, 3}, {.device = d}), {3}); })}};
}

/// A function that shows the same elements in another shape.
Sample reshaped(const char* name, const Shape& from, const Shape& to,
                std::function<Tensor(const Tensor&)> f) {
  return {.name = name,
          .in = {x(from).in(0, 2)},
          .call = [=](const Args& a) -> Tensors { return {f(a[0])}; },
          .oracle = [=](const HostArgs& in) { return std::vector{HostArray{to, in[0].values}}; },
          .dtypes = kEveryDType};
}

OpCase flatten_case() {
  const auto sample = [](const char* name, const Shape& from, const Shape& to, int64_t start,
                         int64_t end = -1) {
    return reshaped(name, from, to,
                    [start, end](const Tensor& t) { return flatten(t, start, end); });
  };
  return {.op = "flatten",
          .samples = {sample("everything", {2, 3, 4}, {24}, 0),
                      sample("images", {2, 3, 4, 5}, {2, 60}, 1),
                      sample("first axes", {2, 3, 4, 5}, {6, 4, 5}, 0, 1),
                      sample("inner axes", {2, 3, 4, 5}, {2, 12, 5}, -3, -2),
                      sample("last axis", {2, 3}, {2, 3}, -1), sample("0-d", {}, {1}, 0),
                      sample("one element", {1, 1}, {1}, 0), sample("empty", {3, 0}, {0}, 0)},
          .bad = {bad<IndexError>("flatten: axis must be in [-2, 2), got 2",
                                  [](Device d) { flatten(zeros({2, 3}, {.device = d}), 2); }),
                  bad<ShapeError>("flatten: start must not come after end, got axes 1 and 0",
                                  [](Device d) { flatten(zeros({2, 3}, {.device = d}), 1, 0); })}};
}

OpCase squeeze_case() {
  const auto sample = [](const char* name, const Shape& from, const Shape& to, const Dims& axes) {
    return reshaped(name, from, to, [axes](const Tensor& t) { return squeeze(t, axes); });
  };
  return {
      .op = "squeeze",
      .samples = {sample("every one", {1, 3, 1, 2}, {3, 2}, {}),
                  sample("named", {1, 3, 1, 2}, {1, 3, 2}, {2}),
                  sample("from the end", {1, 3, 1}, {3}, {-1, 0}),
                  sample("of another size", {2, 3}, {2, 3}, {1}), sample("to 0-d", {1, 1}, {}, {}),
                  sample("0-d", {}, {}, {}), sample("empty", {1, 0, 1}, {0}, {})},
      .bad = {bad<IndexError>("squeeze: axis must be in [-2, 2), got 2",
                              [](Device d) { squeeze(zeros({1, 3}, {.device = d}), {2}); })}};
}

OpCase unsqueeze_case() {
  const auto sample = [](const char* name, const Shape& from, const Shape& to, int64_t axis) {
    return reshaped(name, from, to, [axis](const Tensor& t) { return unsqueeze(t, axis); });
  };
  return {
      .op = "unsqueeze",
      .samples = {sample("first", {2, 3}, {1, 2, 3}, 0), sample("between", {2, 3}, {2, 1, 3}, 1),
                  sample("last", {2, 3}, {2, 3, 1}, -1),
                  sample("images", {2, 3, 4, 5}, {2, 3, 1, 4, 5}, 2), sample("0-d", {}, {1}, 0),
                  sample("one element", {1}, {1, 1}, -2), sample("empty", {0, 2}, {0, 1, 2}, 1)},
      .bad = {bad<IndexError>("unsqueeze: axis must be in [-3, 3), got 3",
                              [](Device d) { unsqueeze(zeros({1, 3}, {.device = d}), 3); }),
              bad<ShapeError>("has 8 dimensions already, the most", [](Device d) {
                unsqueeze(zeros({1, 1, 1, 1, 1, 1, 1, 2}, {.device = d}), 0);
              })}};
}

/// Axis i of the result is axis order[i] of the input.
std::vector<HostArray> permuted(const HostArray& in, const Dims& order) {
  Shape shape;
  for (const int64_t axis : order) shape.push_back(in.shape[static_cast<int>(axis)]);
  return gathered(in, shape, [&](const Dims& index) {
    Dims from = index;
    for (int i = 0; i < order.rank(); ++i) from[static_cast<int>(order[i])] = index[i];
    return from;
  });
}

OpCase transpose_case(const char* op, Tensor (*f)(const Tensor&, int64_t, int64_t)) {
  const auto sample = [f](const char* name, const Shape& shape, int64_t a, int64_t b,
                          const Dims& order) {
    return Sample{.name = name,
                  .in = {x(shape).in(0, 2)},
                  .call = [=](const Args& in) -> Tensors { return {f(in[0], a, b)}; },
                  .oracle = [=](const HostArgs& in) { return permuted(in[0], order); },
                  .dtypes = kEveryDType};
  };
  return {.op = op,
          .samples = {sample("matrix", {3, 4}, 0, 1, {1, 0}),
                      sample("from the end", {2, 3, 4, 5}, -3, -1, {0, 3, 2, 1}),
                      sample("with itself", {2, 3}, 1, 1, {0, 1}),
                      sample("one element", {1, 1}, 0, 1, {1, 0}),
                      sample("empty", {0, 3}, 0, 1, {1, 0})},
          .bad = {bad<IndexError>("transpose: axis must be in [-2, 2), got -3",
                                  [f](Device d) { f(zeros({2, 3}, {.device = d}), 0, -3); })}};
}

OpCase movedim_case() {
  const auto sample = [](const char* name, const Shape& shape, const Dims& from, const Dims& to,
                         const Dims& order) {
    return Sample{.name = name,
                  .in = {x(shape).in(0, 2)},
                  .call = [=](const Args& in) -> Tensors { return {movedim(in[0], from, to)}; },
                  .oracle = [=](const HostArgs& in) { return permuted(in[0], order); },
                  .dtypes = kEveryDType};
  };
  return {
      .op = "movedim",
      .samples = {sample("one", {2, 3, 4}, {0}, {-1}, {1, 2, 0}),
                  sample("two", {2, 3, 4, 5}, {3, 1}, {0, 1}, {3, 1, 0, 2}),
                  sample("crossing", {2, 3, 4}, {0, 2}, {2, 0}, {2, 1, 0}),
                  sample("none", {2, 3}, {}, {}, {0, 1}),
                  sample("one element", {1, 1}, {0}, {1}, {1, 0}),
                  sample("empty", {0, 3}, {0}, {1}, {1, 0})},
      .bad = {
          bad<ShapeError>("movedim: 1 axes [0] go to 2 places [0, 1]",
                          [](Device d) { movedim(zeros({2, 3}, {.device = d}), {0}, {0, 1}); }),
          bad<ShapeError>("movedim: axes [0, -2] to [0, 1] name one twice",
                          [](Device d) { movedim(zeros({2, 3}, {.device = d}), {0, -2}, {0, 1}); }),
          bad<IndexError>("movedim: axis must be in [-2, 2), got 5",
                          [](Device d) { movedim(zeros({2, 3}, {.device = d}), {0}, {5}); })}};
}

const Room kRoom([] {
  return std::vector<OpCase>{reshape_case(),
                             permute_case(),
                             expand_case(),
                             flatten_case(),
                             squeeze_case(),
                             unsqueeze_case(),
                             transpose_case("transpose", transpose),
                             transpose_case("swapaxes", swapaxes),
                             movedim_case()};
});

}  // namespace
}  // namespace mica::cases

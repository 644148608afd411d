#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// What a view shows, element by element: `source` gives the input's index for an index of the
/// result.
std::vector<HostArray> viewed(const HostArray& in, const Shape& shape,
                              const std::function<Dims(const Dims&)>& source) {
  HostArray out{shape, {}};
  Dims index = Dims::filled(shape.rank(), 0);
  for (int64_t i = 0; i < numel(shape); ++i) {
    const Dims from = source(index);
    int64_t at = 0;
    for (int axis = 0; axis < in.shape.rank(); ++axis) at = at * in.shape[axis] + from[axis];
    out.values.push_back(in.values[static_cast<size_t>(at)]);
    for (int axis = shape.rank() - 1; axis >= 0 && ++index[axis] == shape[axis]; --axis)
      index[axis] = 0;
  }
  return {out};
}

const std::vector<DType> kAll = {DType::f64, DType::f32, DType::f16, DType::bf16,
                                 DType::i64, DType::i32, DType::u8,  DType::boolean};

OpCase reshape_case() {
  const auto sample = [](const char* name, const Shape& from, const Shape& to,
                         const Shape& result) {
    return Sample{
        .name = name,
        .in = {x(from).in(0, 2)},
        .call = [=](const Args& a) -> Tensors { return {reshape(a[0], to)}; },
        .oracle = [=](const HostArgs& in) { return std::vector{HostArray{result, in[0].values}}; },
        .dtypes = kAll};
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
                              [](Device d) { reshape(zeros({2, 3}, {.device = d}), {4, -1}); })}};
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
              return viewed(in[0], result, [&](const Dims& index) {
                Dims from = index;
                for (int i = 0; i < axes.rank(); ++i)
                  from[static_cast<int>((axes[i] + axes.rank()) % axes.rank())] = index[i];
                return from;
              });
            },
        .dtypes = kAll};
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
                        return viewed(in[0], to, [&](const Dims& index) {
                          Dims at = Dims::filled(from.rank(), 0);
                          for (int i = 0; i < from.rank(); ++i)
                            at[i] = from[i] == 1 ? 0 : index[i + to.rank() - from.rank()];
                          return at;
                        });
                      }};
  };
  return {.op = "expand",
          .samples = {sample("rows", {1, 4}, {3, 4}), sample("columns", {3, 1}, {3, 4}),
                      sample("new axes", {4}, {2, 3, 4}), sample("0-d", {}, {2, 3}),
                      sample("one element", {1}, {1}), sample("empty", {0, 1}, {0, 5}),
                      sample("to nothing", {1, 3}, {0, 3})},
          .bad = {bad<ShapeError>("expand: [2, 3] does not expand to [4, 3]",
                                  [](Device d) { expand(zeros({2, 3}, {.device = d}), {4, 3}); }),
                  bad<ShapeError>("expand: cannot lower the rank, [2, 3] to [3]",
                                  [](Device d) { expand(zeros({2, 3}, {.device = d}), {3}); })}};
}

OpCase slice_case() {
  const auto sample = [](const char* name, const Shape& shape, SliceParams p, int64_t first,
                         int64_t length) {
    return Sample{.name = name,
                  .in = {x(shape).in(0, 2)},
                  .call = [=](const Args& a) -> Tensors {
                    return {slice(a[0], p.axis, p.start, p.stop, p.step)};
                  },
                  .oracle =
                      [=](const HostArgs& in) {
                        const int axis = static_cast<int>((p.axis + shape.rank()) % shape.rank());
                        Shape result = shape;
                        result[axis] = length;
                        return viewed(in[0], result, [&](const Dims& index) {
                          Dims from = index;
                          from[axis] = first + index[axis] * p.step;
                          return from;
                        });
                      },
                  .dtypes = kAll};
  };
  return {.op = "slice",
          .samples = {sample("middle", {5, 4}, {0, 1, 4, 1}, 1, 3),
                      sample("steps", {3, 9}, {1, 1, 9, 3}, 1, 3),
                      sample("from the end", {6}, {0, -3, -1, 1}, 3, 2),
                      sample("last axis", {2, 5}, {-1, 2, 100, 1}, 2, 3),
                      sample("images", {2, 3, 4, 5}, {2, 1, 4, 2}, 1, 2),
                      sample("one element", {1}, {0, 0, 1, 1}, 0, 1),
                      sample("empty result", {4}, {0, 3, 2, 1}, 0, 0),
                      sample("empty", {0, 2}, {1, 1, 2, 1}, 1, 1)},
          .bad = {bad<IndexError>("slice: step must be at least 1, got 0",
                                  [](Device d) { slice(zeros({4}, {.device = d}), 0, 0, 4, 0); }),
                  bad<IndexError>("slice: axis must be in [-1, 1), got 1",
                                  [](Device d) { slice(zeros({4}, {.device = d}), 1, 0, 4); })}};
}

const Room kRoom([] {
  return std::vector<OpCase>{reshape_case(), permute_case(), expand_case(), slice_case()};
});

}  // namespace
}  // namespace mica::cases

#include "tests/op_cases/gathered.h"

namespace mica::cases {
namespace {

constexpr int64_t kFarBelow = std::numeric_limits<int64_t>::min();
constexpr int64_t kFarAbove = std::numeric_limits<int64_t>::max();

/// The result's index i of `axis` is the input's first + i * step.
Sample taken(const char* name, const Shape& shape, int axis, int64_t first, int64_t step,
             int64_t length, std::function<Tensor(const Tensor&)> f) {
  return {.name = name,
          .in = {x(shape).in(0, 2)},
          .call = [=](const Args& a) -> Tensors { return {f(a[0])}; },
          .oracle =
              [=](const HostArgs& in) {
                Shape result = shape;
                result[axis] = length;
                return gathered(in[0], result, [&](const Dims& index) {
                  Dims from = index;
                  from[axis] = first + index[axis] * step;
                  return from;
                });
              },
          .dtypes = kEveryDType};
}

OpCase slice_case() {
  const auto sample = [](const char* name, const Shape& shape, SliceParams p, int64_t first,
                         int64_t length) {
    const int axis = static_cast<int>((p.axis + shape.rank()) % shape.rank());
    return taken(name, shape, axis, first, p.step, length,
                 [p](const Tensor& t) { return slice(t, p.axis, p.start, p.stop, p.step); });
  };
  return {.op = "slice",
          .samples = {sample("middle", {5, 4}, {0, 1, 4, 1}, 1, 3),
                      sample("steps", {3, 9}, {1, 1, 9, 3}, 1, 3),
                      sample("from the end", {6}, {0, -3, -1, 1}, 3, 2),
                      sample("last axis", {2, 5}, {-1, 2, 100, 1}, 2, 3),
                      sample("images", {2, 3, 4, 5}, {2, 1, 4, 2}, 1, 2),
                      sample("whole steps", {7}, {0, 0, 7, 7}, 0, 1),
                      sample("the longest step", {7}, {0, 2, 7, kFarAbove}, 2, 1),
                      sample("backwards", {2, 5}, {1, 3, 0, -1}, 3, 3),
                      sample("backwards in steps", {7, 2}, {0, -1, kFarBelow, -3}, 6, 3),
                      sample("backwards through the first", {6}, {0, 4, -7, -2}, 4, 3),
                      sample("backwards from behind", {4}, {0, kFarAbove, -5, -1}, 3, 4),
                      sample("the longest step backwards", {4}, {0, 2, -5, kFarBelow}, 2, 1),
                      sample("backwards to nothing", {4}, {0, 1, 3, -1}, 0, 0),
                      sample("one element", {1}, {0, 0, 1, 1}, 0, 1),
                      sample("empty result", {4}, {0, 3, 2, 1}, 0, 0),
                      sample("empty", {0, 2}, {1, 1, 2, 1}, 1, 1),
                      sample("empty axis backwards", {0, 2}, {0, -1, -5, -1}, 0, 0)},
          .bad = {bad<IndexError>("slice: step must not be 0",
                                  [](Device d) { slice(zeros({4}, {.device = d}), 0, 0, 4, 0); }),
                  bad<IndexError>("slice: axis must be in [-1, 1), got 1",
                                  [](Device d) { slice(zeros({4}, {.device = d}), 1, 0, 4); })}};
}

/// An array of zeros with the input at the places that `place` gives for its indices.
std::vector<HostArray> scattered(const HostArray& in, const Shape& shape,
                                 const std::function<Dims(const Dims&)>& place) {
  HostArray out{shape, std::vector<double>(static_cast<size_t>(numel(shape)))};
  each_index(in.shape, [&](const Dims& index) {
    out.values[place_of(shape, place(index))] = in.values[place_of(in.shape, index)];
  });
  return {out};
}

OpCase slice_grad_case() {
  const auto sample = [](const char* name, const Shape& part, SliceParams p, const Shape& whole) {
    return Sample{.name = name,
                  .in = {x(part).in(0, 2)},
                  .call = [=](const Args& a) -> Tensors { return {slice_grad(a[0], {p, whole})}; },
                  .oracle =
                      [=](const HostArgs& in) {
                        return scattered(in[0], whole, [&](const Dims& index) {
                          Dims to = index;
                          const int axis = static_cast<int>(p.axis);
                          to[axis] = p.start + index[axis] * p.step;
                          return to;
                        });
                      },
                  .dtypes = kEveryDType};
  };
  Sample large = sample("several threads", {190, 300}, {1, 20, 320, 1}, {190, 400});
  large.dtypes = {DType::f32};
  large.gradient = false;
  return {.op = "slice_grad",
          .samples = {sample("middle", {3, 4}, {0, 1, 4, 1}, {5, 4}),
                      sample("steps", {3, 3}, {1, 1, 9, 3}, {3, 9}),
                      sample("images", {2, 3, 2, 5}, {2, 1, 4, 2}, {2, 3, 4, 5}),
                      sample("one element", {1}, {0, 2, 3, 1}, {4}),
                      sample("empty", {0, 2}, {0, 1, 1, 1}, {3, 2}), large},
          .bad = {bad<ShapeError>("slice_grad: dy must be [2, 3], got [3]",
                                  [](Device d) {
                                    slice_grad(zeros({3}, {.device = d}), {{0, 0, 2, 1}, {4, 3}});
                                  }),
                  bad<ShapeError>(
                      "slice_grad: {axis = 0, start = 0, stop = 5, step = 1} does not lie in [4]",
                      [](Device d) { slice_grad(zeros({5}, {.device = d}), {{0, 0, 5, 1}, {4}}); }),
                  bad<ShapeError>("shape [2, -1] has a negative size", [](Device d) {
                    slice_grad(zeros({5}, {.device = d}), {{0, 0, 5, 1}, {2, -1}});
                  })}};
}

OpCase narrow_case() {
  const auto sample = [](const char* name, const Shape& shape, int64_t axis, int64_t start,
                         int64_t length) {
    const int a = static_cast<int>((axis + shape.rank()) % shape.rank());
    return taken(name, shape, a, start < 0 ? start + shape[a] : start, 1, length,
                 [=](const Tensor& t) { return narrow(t, axis, start, length); });
  };
  return {.op = "narrow",
          .samples = {sample("rows", {5, 4}, 0, 1, 3), sample("from the end", {2, 5}, -1, -3, 2),
                      sample("nothing", {4}, 0, 4, 0), sample("one element", {1}, 0, 0, 1),
                      sample("empty", {0, 2}, 0, 0, 0)},
          .bad = {bad<IndexError>("narrow: 3 elements from 2 on do not lie in axis 0 of [4]",
                                  [](Device d) { narrow(zeros({4}, {.device = d}), 0, 2, 3); }),
                  bad<IndexError>("narrow: -1 elements from 2 on do not lie in axis 0 of [4]",
                                  [](Device d) { narrow(zeros({4}, {.device = d}), 0, 2, -1); }),
                  bad<IndexError>("narrow: 1 elements from -5 on do not lie in axis 0 of [4]",
                                  [](Device d) { narrow(zeros({4}, {.device = d}), 0, -5, 1); }),
                  bad<IndexError>("narrow: axis must be in [-1, 1), got 2",
                                  [](Device d) { narrow(zeros({4}, {.device = d}), 2, 0, 1); })}};
}

OpCase select_case() {
  const auto sample = [](const char* name, const Shape& shape, int64_t axis, int64_t index) {
    return Sample{
        .name = name,
        .in = {x(shape).in(0, 2)},
        .call = [=](const Args& a) -> Tensors { return {select(a[0], axis, index)}; },
        .oracle =
            [=](const HostArgs& in) {
              const int dropped = static_cast<int>((axis + shape.rank()) % shape.rank());
              Shape result;
              for (int i = 0; i < shape.rank(); ++i)
                if (i != dropped) result.push_back(shape[i]);
              return gathered(in[0], result, [&](const Dims& place) {
                Dims from;
                for (int i = 0, k = 0; i < shape.rank(); ++i)
                  from.push_back(i == dropped ? (index + shape[i]) % shape[i] : place[k++]);
                return from;
              });
            },
        .dtypes = kEveryDType};
  };
  return {.op = "select",
          .samples = {sample("row", {3, 4}, 0, 1), sample("column", {3, 4}, 1, -1),
                      sample("channel", {2, 3, 4, 5}, -3, 2), sample("to 0-d", {4}, 0, 3),
                      sample("one element", {1}, 0, 0), sample("empty", {2, 0}, 0, 1)},
          .bad = {bad<IndexError>("select: index must be in [-3, 3) for axis 0 of [3, 4], got 3",
                                  [](Device d) { select(zeros({3, 4}, {.device = d}), 0, 3); }),
                  bad<IndexError>("select: axis must be in [-2, 2), got 2",
                                  [](Device d) { select(zeros({3, 4}, {.device = d}), 2, 0); })}};
}

/// The index of the whole for an index of its diagonal.
Dims on_diagonal(const Dims& index, int rank, const DiagonalParams& p) {
  const int row = static_cast<int>((p.axis1 + rank) % rank);
  const int column = static_cast<int>((p.axis2 + rank) % rank);
  Dims from = Dims::filled(rank, 0);
  for (int i = 0, k = 0; i < rank; ++i)
    if (i != row && i != column) from[i] = index[k++];
  from[row] = index.back() + std::max<int64_t>(0, -p.offset);
  from[column] = index.back() + std::max<int64_t>(0, p.offset);
  return from;
}

OpCase diagonal_case() {
  const auto sample = [](const char* name, const Shape& shape, DiagonalParams p,
                         const Shape& result) {
    return Sample{.name = name,
                  .in = {x(shape).in(0, 2)},
                  .call = [=](const Args& a) -> Tensors { return {diagonal(a[0], p)}; },
                  .oracle =
                      [=](const HostArgs& in) {
                        return gathered(in[0], result, [&](const Dims& index) {
                          return on_diagonal(index, shape.rank(), p);
                        });
                      },
                  .dtypes = kEveryDType};
  };
  return {
      .op = "diagonal",
      .samples = {sample("square", {4, 4}, {}, {4}), sample("wide", {3, 5}, {}, {3}),
                  sample("above", {3, 5}, {.offset = 1}, {3}),
                  sample("below", {4, 3}, {.offset = -2}, {2}),
                  sample("of a batch", {2, 3, 4}, {.offset = 1, .axis1 = -2, .axis2 = -1}, {2, 3}),
                  sample("axes exchanged", {3, 2, 4}, {.offset = 1, .axis1 = 2, .axis2 = 0},
                         {2, 2}),
                  sample("images", {2, 3, 4, 5}, {.axis1 = 1, .axis2 = 3}, {2, 4, 3}),
                  sample("outside", {3, 3}, {.offset = kFarBelow}, {0}),
                  sample("one element", {1, 1}, {}, {1}), sample("empty", {0, 3}, {}, {0})},
      .bad = {
          bad<ShapeError>("diagonal: the two axes must differ, got 0 and -2",
                          [](Device d) { diagonal(zeros({2, 2}, {.device = d}), {.axis2 = -2}); }),
          bad<IndexError>("diagonal: axis must be in [-1, 1), got 1",
                          [](Device d) { diagonal(zeros({4}, {.device = d})); })}};
}

OpCase diagonal_grad_case() {
  const auto sample = [](const char* name, const Shape& part, DiagonalParams p,
                         const Shape& whole) {
    return Sample{
        .name = name,
        .in = {x(part).in(0, 2)},
        .call = [=](const Args& a) -> Tensors { return {diagonal_grad(a[0], {p, whole})}; },
        .oracle =
            [=](const HostArgs& in) {
              return scattered(in[0], whole, [&](const Dims& index) {
                return on_diagonal(index, whole.rank(), p);
              });
            },
        .dtypes = kEveryDType};
  };
  return {
      .op = "diagonal_grad",
      .samples = {sample("square", {4}, {}, {4, 4}), sample("above", {3}, {.offset = 1}, {3, 5}),
                  sample("of a batch", {2, 3}, {.offset = 1, .axis1 = 1, .axis2 = 2}, {2, 3, 4}),
                  sample("one element", {1}, {}, {1, 1}),
                  sample("empty", {0}, {.offset = 3}, {3, 3})},
      .bad = {
          bad<ShapeError>("diagonal_grad: dy must be [3], got [4]",
                          [](Device d) { diagonal_grad(zeros({4}, {.device = d}), {{}, {3, 4}}); }),
          bad<ShapeError>(
              "diagonal_grad: {offset = 4, axis1 = 0, axis2 = 1} does not lie in [3, 3]",
              [](Device d) {
                diagonal_grad(zeros({0}, {.device = d}), {{.offset = 4}, {3, 3}});
              })}};
}

const Room kRoom([] {
  return std::vector<OpCase>{slice_case(),  slice_grad_case(), narrow_case(),
                             select_case(), diagonal_case(),   diagonal_grad_case()};
});

}  // namespace
}  // namespace mica::cases

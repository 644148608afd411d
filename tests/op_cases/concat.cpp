#include "tests/op_cases/gathered.h"

namespace mica::cases {
namespace {

/// Each element from the input whose part of the axis it lies in.
std::vector<HostArray> joined(const HostArgs& in, int axis) {
  Shape shape = in[0].shape;
  shape[axis] = 0;
  for (const HostArray& part : in.in) shape[axis] += part.shape[axis];
  HostArray out{shape, {}};
  each_index(shape, [&](const Dims& index) {
    Dims from = index;
    size_t part = 0;
    while (from[axis] >= in[part].shape[axis]) from[axis] -= in[part++].shape[axis];
    out.values.push_back(in[part].values[place_of(in[part].shape, from)]);
  });
  return {out};
}

Sample concat_sample(std::string name, const std::vector<Shape>& shapes, int64_t axis) {
  Sample s{.name = std::move(name),
           .in = {},
           .call = [=](const Args& a) -> Tensors { return {concat(a.in, axis)}; },
           .oracle =
               [=, rank = shapes[0].rank()](const HostArgs& in) {
                 return joined(in, static_cast<int>((axis + rank) % rank));
               },
           .dtypes = kEveryDType};
  for (const Shape& shape : shapes) s.in.push_back(x(shape).in(0, 2));
  return s;
}

OpCase concat_case() {
  Sample many = concat_sample("more than one call takes", std::vector<Shape>(70, {2, 1}), 1);
  many.dtypes = {DType::f32, DType::u8};
  Sample promotes = concat_sample("dtypes promote", {{3}, {2}, {2}}, 0);
  promotes.in[1] = x({2}).in(0, 2).as<DType::f64>();
  promotes.in[2] = x({2}).of({5, 9}).as<DType::i32>();
  promotes.dtypes = kFloats;
  Sample large = concat_sample("several threads", {{200, 300}, {200, 150}}, 1);
  large.dtypes = {DType::f32};
  large.gradient = false;
  Sample hostile = concat_sample("hostile values", {{16}, {1}}, 0);
  hostile.in[0] = x({16}).of(hostile_values());
  hostile.dtypes = kFloats;
  hostile.gradient = false;
  const auto at = [](Device d, const Shape& shape) { return zeros(shape, {.device = d}); };
  return {
      .op = "concat",
      .samples = {concat_sample("rows", {{2, 3}, {1, 3}, {4, 3}}, 0),
                  concat_sample("columns", {{3, 2}, {3, 5}}, 1),
                  concat_sample("middle", {{2, 1, 3}, {2, 2, 3}}, -2),
                  concat_sample("channels", {{2, 3, 4, 5}, {2, 2, 4, 5}}, 1),
                  concat_sample("columns of images", {{2, 3, 4, 5}, {2, 3, 4, 1}}, 3),
                  concat_sample("one", {{3, 2}}, 0), concat_sample("one element", {{1}}, 0),
                  concat_sample("with an empty one", {{2, 3}, {0, 3}, {1, 3}}, 0),
                  concat_sample("empty", {{0, 3}, {0, 2}}, 1), many, promotes, large, hostile},
      .bad = {
          bad<ShapeError>("concat: expected at least one tensor", [](Device) { concat({}); }),
          bad<ShapeError>("concat: shapes must agree but for axis 0, got [2, 3] and [2, 4]",
                          [=](Device d) { concat({at(d, {2, 3}), at(d, {2, 4})}); }),
          bad<ShapeError>("concat: shapes must agree but for axis 0, got [2, 3] and [2]",
                          [=](Device d) { concat({at(d, {2, 3}), at(d, {2})}); }),
          bad<IndexError>("concat: axis must be in [-2, 2), got 2",
                          [=](Device d) { concat({at(d, {2, 3})}, 2); }),
          bad<IndexError>("concat: axis must be in [0, 0), got 0",
                          [=](Device d) { concat({at(d, {})}); }),
          bad<ShapeError>("concat: the sizes of axis 0 add up to more than 2^63",
                          [=](Device d) {
                            constexpr int64_t kLarge = int64_t{1} << 62;
                            concat({expand(at(d, {1}), {kLarge}), expand(at(d, {1}), {kLarge})});
                          }),
          bad<DTypeError>("concat: tensors must have one dtype, got f32 and f64", [=](Device d) {
            call_op("concat", ConcatParams{0}, {at(d, {2}), cast(at(d, {2}), DType::f64)});
          })}};
}

OpCase stack_case() {
  const auto sample = [](const char* name, const Shape& shape, size_t count, int64_t axis) {
    Sample s{.name = name,
             .in = {},
             .call = [=](const Args& a) -> Tensors { return {stack(a.in, axis)}; },
             .oracle =
                 [=](const HostArgs& in) {
                   const int rank = shape.rank() + 1;
                   const int at = static_cast<int>((axis + rank) % rank);
                   HostArgs rows = in;
                   for (HostArray& row : rows.in) {
                     Shape longer;
                     for (int i = 0; i < rank; ++i)
                       longer.push_back(i == at ? 1 : shape[i - (i > at ? 1 : 0)]);
                     row.shape = longer;
                   }
                   return joined(rows, at);
                 },
             .dtypes = kEveryDType};
    for (size_t i = 0; i < count; ++i) s.in.push_back(x(shape).in(0, 2));
    return s;
  };
  return {.op = "stack",
          .samples = {sample("rows", {3, 2}, 3, 0), sample("between", {3, 2}, 2, 1),
                      sample("last", {2, 3, 4}, 2, -1), sample("0-d", {}, 3, 0),
                      sample("one element", {1}, 1, 0), sample("empty", {0, 2}, 2, 1)},
          .bad = {bad<ShapeError>("stack: expected at least one tensor", [](Device) { stack({}); }),
                  bad<ShapeError>("stack: expected one shape, got [2] and [3]",
                                  [](Device d) {
                                    stack({zeros({2}, {.device = d}), zeros({3}, {.device = d})});
                                  }),
                  bad<IndexError>("stack: axis must be in [-2, 2), got 2",
                                  [](Device d) { stack({zeros({2}, {.device = d})}, 2); })}};
}

/// The parts of an axis with these sizes.
std::vector<HostArray> parts_of(const HostArray& in, const std::vector<int64_t>& sizes, int axis) {
  std::vector<HostArray> parts;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    Shape shape = in.shape;
    shape[axis] = size;
    parts.push_back(gathered(in, shape, [&](const Dims& index) {
      Dims from = index;
      from[axis] += first;
      return from;
    })[0]);
    first += size;
  }
  return parts;
}

Sample split_sample(const char* name, const Shape& shape, int64_t axis,
                    const std::vector<int64_t>& sizes, std::function<Tensors(const Tensor&)> f) {
  const int a = static_cast<int>((axis + shape.rank()) % shape.rank());
  return {.name = name,
          .in = {x(shape).in(0, 2)},
          .call = [=](const Args& args) { return f(args[0]); },
          .oracle = [=](const HostArgs& in) { return parts_of(in[0], sizes, a); },
          .dtypes = kEveryDType};
}

OpCase split_case() {
  const auto sized = [](const char* name, const Shape& shape, int64_t size, int64_t axis,
                        const std::vector<int64_t>& sizes) {
    return split_sample(name, shape, axis, sizes,
                        [=](const Tensor& t) { return split(t, size, axis); });
  };
  const auto listed = [](const char* name, const Shape& shape, const std::vector<int64_t>& sizes,
                         int64_t axis) {
    return split_sample(name, shape, axis, sizes,
                        [=](const Tensor& t) { return split(t, sizes, axis); });
  };
  return {
      .op = "split",
      .samples = {sized("even", {6, 2}, 2, 0, {2, 2, 2}),
                  sized("a smaller last", {2, 7}, 3, -1, {3, 3, 1}),
                  sized("larger than the axis", {3}, 9, 0, {3}),
                  sized("empty axis", {0, 2}, 0, 0, {0}), listed("sizes", {6, 2}, {1, 3, 2}, 0),
                  listed("a size of 0", {2, 4}, {1, 0, 3}, 1),
                  listed("images", {2, 5, 4, 3}, {2, 3}, 1), sized("one element", {1}, 1, 0, {1})},
      .bad = {bad<ShapeError>("split: size must be at least 1 for axis 0 of [4], got 0",
                              [](Device d) { split(zeros({4}, {.device = d}), 0); }),
              bad<ShapeError>("split: size must be at least 1 for axis 0 of [4], got -2",
                              [](Device d) { split(zeros({4}, {.device = d}), -2); }),
              bad<ShapeError>("split: the 2 sizes do not add up to 4, axis 0 of [4]",
                              [](Device d) { split(zeros({4}, {.device = d}), {1, 2}); }),
              bad<ShapeError>("split: the 2 sizes do not add up to 4, axis 0 of [4]",
                              [](Device d) { split(zeros({4}, {.device = d}), {3, 3}); }),
              bad<ShapeError>("split: a size must be at least 0, got -1",
                              [](Device d) { split(zeros({4}, {.device = d}), {-1, 5}); }),
              bad<IndexError>("split: axis must be in [-1, 1), got 1",
                              [](Device d) { split(zeros({4}, {.device = d}), 2, 1); })}};
}

OpCase chunk_case() {
  const auto sample = [](const char* name, const Shape& shape, int64_t chunks, int64_t axis,
                         const std::vector<int64_t>& sizes) {
    return split_sample(name, shape, axis, sizes,
                        [=](const Tensor& t) { return chunk(t, chunks, axis); });
  };
  return {.op = "chunk",
          .samples = {sample("even", {6, 2}, 3, 0, {2, 2, 2}),
                      sample("a smaller last", {2, 7}, 3, 1, {3, 3, 1}),
                      sample("fewer than asked for", {2, 5}, 4, -1, {2, 2, 1}),
                      sample("more than there are", {3}, 8, 0, {1, 1, 1}),
                      sample("empty axis", {2, 0}, 2, 1, {0, 0}),
                      sample("one element", {1}, 1, 0, {1})},
          .bad = {bad<ShapeError>("chunk: expected at least one chunk, got 0",
                                  [](Device d) { chunk(zeros({4}, {.device = d}), 0); }),
                  bad<IndexError>("chunk: axis must be in [-1, 1), got 1",
                                  [](Device d) { chunk(zeros({4}, {.device = d}), 2, 1); })}};
}

const Room kRoom([] {
  return std::vector<OpCase>{concat_case(), stack_case(), split_case(), chunk_case()};
});

}  // namespace
}  // namespace mica::cases

#include "tests/op_cases/gathered.h"

namespace mica::cases {
namespace {

constexpr int64_t kHuge = int64_t{1} << 62;

std::vector<HostArray> tiled(const HostArray& in, const Dims& repeats) {
  const int rank = std::max(in.shape.rank(), repeats.rank());
  Shape shape = Dims::filled(rank, 1);
  std::copy(in.shape.begin(), in.shape.end(), shape.end() - in.shape.rank());
  const HostArray longer{shape, in.values};
  Shape result = shape;
  for (int i = 0; i < repeats.rank(); ++i) result[rank - repeats.rank() + i] *= repeats[i];
  return gathered(longer, result, [&](const Dims& index) {
    Dims from = index;
    for (int i = 0; i < rank; ++i) from[i] %= shape[i];
    return from;
  });
}

OpCase tile_case(const char* op, Tensor (*f)(const Tensor&, const Dims&)) {
  const auto sample = [f](const char* name, const Shape& shape, const Dims& repeats) {
    return Sample{.name = name,
                  .in = {x(shape).in(0, 2)},
                  .call = [=](const Args& a) -> Tensors { return {f(a[0], repeats)}; },
                  .oracle = [=](const HostArgs& in) { return tiled(in[0], repeats); },
                  .dtypes = kEveryDType};
  };
  const std::string name = op;
  OpCase c{.op = op,
           .samples = {sample("rows", {2, 3}, {2, 1}), sample("both", {2, 3}, {3, 2}),
                       sample("new axes", {3}, {2, 1, 2}), sample("0-d", {}, {3, 2}),
                       sample("once", {2, 3}, {1, 1}), sample("images", {2, 3, 2, 2}, {1, 2, 2, 1}),
                       sample("to nothing", {2, 3}, {0, 2}), sample("one element", {1}, {2}),
                       sample("empty", {0, 2}, {2, 3})},
           .bad = {bad<ShapeError>(name + ": expected a number of at least 0, got -2",
                                   [f](Device d) { f(zeros({2}, {.device = d}), {-2}); }),
                   bad<ShapeError>(name + ": axis 0 of [4] cannot be repeated",
                                   [f](Device d) { f(zeros({4}, {.device = d}), {kHuge}); }),
                   bad<ShapeError>("has more than 2^63 elements", [f](Device d) {
                     f(zeros({1, 4}, {.device = d}), {kHuge, 1});
                   })}};
  if (name == "tile") {
    c.samples.push_back(sample("last axes", {2, 2, 3}, {2}));
  } else {
    c.bad.push_back(
        bad<ShapeError>("repeat: a tensor of shape [2, 3] needs at least 2 numbers, got [2]",
                        [f](Device d) { f(zeros({2, 3}, {.device = d}), {2}); }));
  }
  return c;
}

OpCase interleave_case() {
  const auto sample = [](const char* name, const Shape& shape, int64_t repeats, int64_t axis) {
    return Sample{
        .name = name,
        .in = {x(shape).in(0, 2)},
        .call = [=](const Args& a) -> Tensors { return {repeat_interleave(a[0], repeats, axis)}; },
        .oracle =
            [=](const HostArgs& in) {
              const int a = static_cast<int>((axis + shape.rank()) % shape.rank());
              Shape result = shape;
              result[a] *= repeats;
              return gathered(in[0], result, [&](const Dims& index) {
                Dims from = index;
                from[a] /= repeats;
                return from;
              });
            },
        .dtypes = kEveryDType};
  };
  return {
      .op = "repeat_interleave",
      .samples = {sample("rows", {2, 3}, 2, 0), sample("columns", {2, 3}, 3, -1),
                  sample("images", {2, 3, 2, 2}, 2, 1), sample("once", {2, 3}, 1, 1),
                  sample("five times", {3, 7}, 5, 1), sample("many times", {2, 19}, 70, 1),
                  sample("to nothing", {2, 3}, 0, 1), sample("one element", {1}, 3, 0),
                  sample("empty", {2, 0}, 2, 0)},
      .bad = {
          bad<ShapeError>("repeat_interleave: expected a number of at least 0, got -1",
                          [](Device d) { repeat_interleave(zeros({2}, {.device = d}), -1, 0); }),
          bad<ShapeError>("repeat_interleave: axis 0 of [4] cannot be repeated",
                          [](Device d) { repeat_interleave(zeros({4}, {.device = d}), kHuge, 0); }),
          bad<IndexError>("repeat_interleave: axis must be in [-1, 1), got 1",
                          [](Device d) { repeat_interleave(zeros({2}, {.device = d}), 2, 1); })}};
}

OpCase meshgrid_case() {
  const auto sample = [](const char* name, const std::vector<Shape>& shapes,
                         MeshIndexing indexing) {
    Sample s{.name = name,
             .in = {},
             .call = [=](const Args& a) { return meshgrid(a.in, indexing); },
             .oracle =
                 [=](const HostArgs& in) {
                   const int rank = static_cast<int>(in.in.size());
                   std::vector<int> axis(in.in.size());
                   for (int i = 0; i < rank; ++i) axis[static_cast<size_t>(i)] = i;
                   if (indexing == MeshIndexing::xy && rank > 1) std::swap(axis[0], axis[1]);
                   Shape grid = Dims::filled(rank, 0);
                   for (size_t i = 0; i < axis.size(); ++i) grid[axis[i]] = numel(in[i].shape);
                   std::vector<HostArray> out;
                   for (size_t i = 0; i < axis.size(); ++i) {
                     const HostArray flat{{numel(in[i].shape)}, in[i].values};
                     out.push_back(gathered(
                         flat, grid, [&](const Dims& index) { return Dims{index[axis[i]]}; })[0]);
                   }
                   return out;
                 },
             .dtypes = kEveryDType};
    for (const Shape& shape : shapes) s.in.push_back(x(shape).in(0, 2));
    return s;
  };
  return {.op = "meshgrid",
          .samples = {sample("rows and columns", {{3}, {4}}, MeshIndexing::ij),
                      sample("pictures", {{3}, {4}}, MeshIndexing::xy),
                      sample("three axes", {{2}, {3}, {4}}, MeshIndexing::xy),
                      sample("with a 0-d one", {{2}, {}, {3}}, MeshIndexing::ij),
                      sample("one axis", {{3}}, MeshIndexing::xy),
                      sample("one element", {{1}, {1}}, MeshIndexing::ij),
                      sample("empty", {{0}, {3}}, MeshIndexing::ij)},
          .bad = {bad<ShapeError>("meshgrid: expected between 1 and 8 tensors, got 0",
                                  [](Device) { meshgrid({}); }),
                  bad<ShapeError>("meshgrid: expected 1-d tensors, got [2, 2]",
                                  [](Device d) { meshgrid({zeros({2, 2}, {.device = d})}); }),
                  bad<DTypeError>("meshgrid: expected one dtype, got f32 and i64", [](Device d) {
                    meshgrid({zeros({2}, {.device = d}), zeros({2}, {DType::i64, d})});
                  })}};
}

const Room kRoom([] {
  return std::vector<OpCase>{tile_case("tile", tile), tile_case("repeat", repeat),
                             interleave_case(), meshgrid_case()};
});

}  // namespace
}  // namespace mica::cases

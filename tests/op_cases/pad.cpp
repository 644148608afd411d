#include "tests/op_cases/gathered.h"

namespace mica::cases {
namespace {

/// The index of x that lies at `i` beside it; -1 for the constant.
int64_t source_of(int64_t i, int64_t n, PadMode mode) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case PadMode::reflect:
      return i < 0 ? -i : 2 * (n - 1) - i;
    case PadMode::replicate:
      return i < 0 ? 0 : n - 1;
    case PadMode::circular:
      return i < 0 ? i + n : i - n;
    case PadMode::constant:
      break;
  }
  return -1;
}

/// Amounts of the last axes become those of all.
Dims of_all(const Dims& amounts, int rank) {
  Dims all = Dims::filled(rank, 0);
  std::copy(amounts.begin(), amounts.end(), all.end() - amounts.rank());
  return all;
}

std::vector<HostArray> padded(const HostArray& in, const PadParams& p) {
  const Dims before = of_all(p.before, in.shape.rank());
  const Dims after = of_all(p.after, in.shape.rank());
  Shape shape = in.shape;
  for (int i = 0; i < shape.rank(); ++i) shape[i] += before[i] + after[i];
  HostArray out{shape, {}};
  each_index(shape, [&](const Dims& index) {
    Dims from = index;
    bool inside = true;
    for (int i = 0; i < shape.rank(); ++i) {
      from[i] = source_of(index[i] - before[i], in.shape[i], p.mode);
      inside = inside && from[i] >= 0;
    }
    out.values.push_back(inside ? in.values[place_of(in.shape, from)] : p.value.to_double());
  });
  return {out};
}

OpCase pad_case() {
  const auto sample = [](std::string name, const Shape& shape, const PadParams& p) {
    return Sample{.name = std::move(name),
                  .in = {x(shape).in(0, 2)},
                  .call = [=](const Args& a) -> Tensors { return {pad(a[0], p)}; },
                  .oracle = [=](const HostArgs& in) { return padded(in[0], p); },
                  .dtypes = kNumbers};
  };
  OpCase c{
      .op = "pad",
      .samples = {
          sample("constant", {3, 4}, {.before = {1, 2}, .after = {2, 1}, .value = 7}),
          sample("constant, last axis", {2, 3, 4}, {.before = {1}, .after = {3}, .value = 5}),
          sample("constant, first axis", {2, 3}, {.before = {1, 0}, .after = {0, 0}, .value = 5}),
          sample("constant, images", {2, 3, 4, 5}, {.before = {1, 2}, .after = {2, 1}, .value = 1}),
          sample("constant, channels", {2, 3, 4, 5},
                 {.before = {1, 0, 0}, .after = {2, 0, 0}, .value = 1}),
          sample("cut", {5, 6}, {.before = {-1, -2}, .after = {-1, 0}}),
          sample("cut and add", {5, 6}, {.before = {-2, 1}, .after = {3, -4}, .value = 9}),
          sample("cut to nothing", {4}, {.before = {-3}, .after = {-1}}),
          sample("no amounts", {2, 3}, {}), sample("only after", {2, 3}, {.after = {1, 2}}),
          sample("one element", {1}, {.before = {2}, .after = {1}, .value = 3}),
          sample("0-d", {}, {}),
          sample("empty", {0, 2}, {.before = {1, 1}, .after = {1, 0}, .value = 2})}};
  for (const PadMode mode : {PadMode::reflect, PadMode::replicate, PadMode::circular}) {
    const std::string name = print_field(mode);
    c.samples.push_back(sample(name, {3, 4}, {{1, 2}, {2, 3}, mode}));
    c.samples.push_back(sample(name + ", one axis", {2, 3, 4}, {{1, 0}, {2, 0}, mode}));
    c.samples.push_back(sample(name + ", images", {2, 3, 4, 5}, {{1, 2}, {3, 1}, mode}));
    c.samples.push_back(sample(name + ", volume", {2, 3, 2, 3}, {{1, 1, 1}, {1, 1, 1}, mode}));
    c.samples.push_back(sample(name + ", empty rows", {0, 4}, {{0, 1}, {0, 2}, mode}));
    Sample large = sample(name + ", several threads", {260, 250}, {{3, 2}, {1, 4}, mode});
    large.dtypes = {DType::f32};
    large.gradient = false;
    c.samples.push_back(large);
  }
  c.samples.push_back(sample("replicate, far", {2, 1}, {{3, 4}, {5, 0}, PadMode::replicate}));
  c.samples.push_back(sample("circular, all of it", {3}, {{3}, {3}, PadMode::circular}));
  const auto refused = [&](const char* message, const Shape& shape, const PadParams& p) {
    c.bad.push_back(
        bad<ShapeError>(message, [=](Device d) { pad(zeros(shape, {.device = d}), p); }));
  };
  refused("pad: amounts [1, 1] before and [1] after do not fit a tensor of shape [2, 3]", {2, 3},
          {.before = {1, 1}, .after = {1}});
  refused("pad: amounts [1, 1] before and [1, 1] after do not fit a tensor of shape [3]", {3},
          {.before = {1, 1}, .after = {1, 1}});
  refused("pad: axis 0 of 3 elements cannot be cut by -2 before and -2 after", {3},
          {.before = {-2}, .after = {-2}});
  refused("pad: axis 0 of 3 elements cannot be cut by -4 before and 4 after", {3},
          {.before = {-4}, .after = {4}});
  refused("pad: reflect takes at most 2 elements for axis 0 of 3, got 3 and 0", {3},
          {{3}, {0}, PadMode::reflect});
  refused("pad: circular takes at most 3 elements for axis 0 of 3, got 0 and 4", {3},
          {{0}, {4}, PadMode::circular});
  refused("pad: replicate takes at most 0 elements for axis 0 of 0, got 1 and 0", {0},
          {{1}, {0}, PadMode::replicate});
  refused("pad: reflect takes amounts of at least 0, got -1 and 0", {3},
          {{-1}, {0}, PadMode::reflect});
  refused("pad: axis 0 of 3 elements with 9223372036854775807 before and 0 after is too large", {3},
          {.before = {std::numeric_limits<int64_t>::max()}});
  c.bad.push_back(bad<DTypeError>("pad: 256 does not fit u8", [](Device d) {
    pad(zeros({3}, {DType::u8, d}), {.before = {1}, .after = {1}, .value = 256});
  }));
  return c;
}

OpCase pad_grad_case() {
  const auto sample = [](std::string name, const Shape& shape, const PadGradParams& p) {
    return Sample{.name = std::move(name),
                  .in = {x(shape)},
                  .call = [=](const Args& a) -> Tensors { return {pad_grad(a[0], p)}; },
                  .oracle =
                      [=](const HostArgs& in) {
                        const int axis = static_cast<int>(p.axis);
                        HostArray out{shape, {}};
                        out.shape[axis] = p.size;
                        out.values.resize(static_cast<size_t>(numel(out.shape)));
                        each_index(shape, [&](const Dims& index) {
                          Dims to = index;
                          to[axis] = source_of(index[axis] - p.before, p.size, p.mode);
                          out.values[place_of(out.shape, to)] +=
                              in[0].values[place_of(shape, index)];
                        });
                        return std::vector{out};
                      }};
  };
  OpCase c{.op = "pad_grad", .samples = {}};
  for (const PadMode mode : {PadMode::reflect, PadMode::replicate, PadMode::circular}) {
    const std::string name = print_field(mode);
    c.samples.push_back(sample(name, {3, 10}, {1, 4, 3, 3, mode}));
    c.samples.push_back(sample(name + ", first axis", {7, 3}, {0, 4, 1, 2, mode}));
    c.samples.push_back(sample(name + ", images", {2, 3, 7, 2}, {2, 3, 2, 2, mode}));
    c.samples.push_back(sample(name + ", columns of images", {2, 3, 2, 7}, {3, 4, 2, 1, mode}));
    c.samples.push_back(sample(name + ", nothing added", {4}, {0, 4, 0, 0, mode}));
    c.samples.push_back(sample(name + ", one element", {1}, {0, 1, 0, 0, mode}));
    c.samples.push_back(sample(name + ", empty", {0, 5}, {1, 3, 1, 1, mode}));
    Sample large = sample(name + ", several threads", {300, 250}, {1, 240, 4, 6, mode});
    large.dtypes = {DType::f32};
    large.gradient = false;
    c.samples.push_back(large);
    large = sample(name + ", one long axis", {70007}, {0, 70000, 3, 4, mode});
    large.dtypes = {DType::f32};
    large.gradient = false;
    c.samples.push_back(large);
  }
  c.samples.push_back(sample("replicate of one", {9, 2}, {0, 1, 5, 3, PadMode::replicate}));
  c.samples.push_back(sample("reflect of two", {4}, {0, 2, 1, 1, PadMode::reflect}));
  c.bad = {
      bad<ShapeError>(
          "pad_grad: axis 0 of dy must have 5 elements, got [4]",
          [](Device d) { pad_grad(zeros({4}, {.device = d}), {0, 3, 1, 1, PadMode::reflect}); }),
      bad<ShapeError>(
          "pad_grad: size must be at least 0, got -3",
          [](Device d) { pad_grad(zeros({4}, {.device = d}), {0, -3, 1, 1, PadMode::reflect}); }),
      bad<IndexError>(
          "pad_grad: axis must be in [-1, 1), got 1",
          [](Device d) { pad_grad(zeros({5}, {.device = d}), {1, 3, 1, 1, PadMode::reflect}); }),
      bad<Error>(
          "pad_grad: constant padding is undone by cutting",
          [](Device d) { pad_grad(zeros({5}, {.device = d}), {0, 3, 1, 1, PadMode::constant}); }),
      bad<DTypeError>("pad_grad: expected a floating dtype, got i64", [](Device d) {
        pad_grad(zeros({5}, {DType::i64, d}), {0, 3, 1, 1, PadMode::reflect});
      })};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{pad_case(), pad_grad_case()}; });

}  // namespace
}  // namespace mica::cases

#include <cmath>

#include "mica/op/op_def.h"
#include "mica/ops/fused/fused.h"
#include "mica/ops/fused/fused_reduce.h"
#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

template <class P = NoParams>
Instruction call(const char* op, std::vector<int> operands, const P& params = {}) {
  return {&find_op(op), AnyParams(ParamsRef::of(params)), std::move(operands)};
}

Tensors run(Program program, const Args& a) {
  return call_op("fused", FusedParams{intern(std::move(program))}, a.in);
}

/// The element of an input that broadcasts to `shape`, for element i of it.
double at(const HostArray& in, const Shape& shape, size_t i) {
  size_t index = 0;
  size_t step = 1;
  for (int d = in.shape.rank() - 1, o = shape.rank() - 1; d >= 0; --d, --o) {
    const auto here = i % static_cast<size_t>(shape[o]);
    i /= static_cast<size_t>(shape[o]);
    if (in.shape[d] != 1) index += here * step;
    step *= static_cast<size_t>(in.shape[d]);
  }
  return in.values[index];
}

/// Outputs from `f(x)` for the elements of all inputs, of the shape they broadcast to.
std::function<std::vector<HostArray>(const HostArgs&)> each(
    size_t outputs, const std::function<std::vector<double>(const std::vector<double>&)>& f) {
  return [=](const HostArgs& in) {
    Shape shape = in[0].shape;
    for (const HostArray& a : in.in) shape = broadcast_shapes(shape, a.shape, "fused");
    std::vector<HostArray> out(outputs, {shape, {}});
    for (size_t i = 0; i < static_cast<size_t>(numel(shape)); ++i) {
      std::vector<double> x;
      for (const HostArray& a : in.in) x.push_back(at(a, shape, i));
      const std::vector<double> y = f(x);
      for (size_t k = 0; k < outputs; ++k) out[k].values.push_back(y[k]);
    }
    return out;
  };
}

/// relu(a * b + c).
Sample chain(const char* name, const Shape& a, const Shape& b, const Shape& c) {
  return {.name = name,
          .in = {x(a), x(b), x(c)},
          .call =
              [](const Args& args) {
                return run({3, {call("mul", {0, 1}), call("add", {3, 2}), call("relu", {4})}, {2}},
                           args);
              },
          .oracle = each(1,
                         [](const std::vector<double>& v) -> std::vector<double> {
                           return {std::max(v[0] * v[1] + v[2], 0.0)};
                         }),
          .gradient = false};
}

/// A sum that is returned, and is needed by two others that are.
Sample several(const char* name, const Shape& a, const Shape& b) {
  return {.name = name,
          .in = {x(a), x(b)},
          .call =
              [](const Args& args) {
                return run({2,
                            {call("add", {0, 1}), call("clamp", {2}, ClampParams{-0.5, 0.75}),
                             call("square", {3}), call("sub", {2, 4})},
                            {0, 2, 3}},
                           args);
              },
          .oracle = each(3,
                         [](const std::vector<double>& v) -> std::vector<double> {
                           const double sum = v[0] + v[1];
                           const double square = std::pow(std::clamp(sum, -0.5, 0.75), 2);
                           return {sum, square, sum - square};
                         }),
          .gradient = false};
}

/// Through f64 and back, and a choice: tensors of several dtypes in one program.
Sample mixed(const char* name, const Shape& a, const Shape& b) {
  return {.name = name,
          .in = {x(a), x(b)},
          .call =
              [](const Args& args) {
                return run({2,
                            {call("copy", {0}, CopyParams{DType::f64}), call("exp", {2}),
                             call("copy", {3}, CopyParams{args.dtype}), call("lt", {0, 1}),
                             call("where", {5, 4, 0})},
                            {4, 3}},
                           args);
              },
          .oracle = each(2,
                         [](const std::vector<double>& v) -> std::vector<double> {
                           const bool less = v[0] < v[1];
                           return {less ? std::exp(v[0]) : v[0], less ? 1.0 : 0.0};
                         }),
          .gradient = false};
}

Sample integers() {
  return {.name = "integers",
          .in = {x({7, 33}).in(0, 7).constant(), x({33}).in(0, 7).constant()},
          .call =
              [](const Args& args) {
                return run(
                    {2, {call("mul", {0, 1}), call("add", {2, 0}), call("maximum", {3, 1})}, {2}},
                    args);
              },
          .oracle = each(1,
                         [](const std::vector<double>& v) -> std::vector<double> {
                           return {std::max(v[0] * v[1] + v[0], v[1])};
                         }),
          .dtypes = kIntegers,
          .gradient = false};
}

/// As many instructions, operands and live results as a program may have.
Sample longest() {
  const auto program = [] {
    Program p{8, {}, {20, 21, 22, 23}};
    for (int i = 0; i < 8; ++i) p.instructions.push_back(call("neg", {i}));
    for (int i = 0; i < 8; ++i) p.instructions.push_back(call("maximum", {8 + i, (i + 3) % 8}));
    for (int i = 0; i < 4; ++i) p.instructions.push_back(call("minimum", {16 + 2 * i, 17 + 2 * i}));
    for (int i = 0; i < 4; ++i) p.instructions.push_back(call("relu", {24 + i}));
    return p;
  };
  return {.name = "the longest",
          .in = std::vector<Input>(8, x({3, 700})),
          .call = [program](const Args& args) { return run(program(), args); },
          .oracle = each(4,
                         [](const std::vector<double>& v) {
                           std::vector<double> m;
                           std::vector<double> y;
                           for (size_t i = 0; i < 8; ++i)
                             m.push_back(std::max(-v[i], v[(i + 3) % 8]));
                           for (size_t i = 0; i < 4; ++i)
                             y.push_back(std::max(std::min(m[2 * i], m[2 * i + 1]), 0.0));
                           return y;
                         }),
          .gradient = false,
          .exact = true};
}

OpCase fused_case() {
  const auto zero = [](const Shape& shape, DType t, Device d) { return zeros(shape, {t, d}); };
  const auto call_with = [](Program p, const Tensors& in) {
    call_op("fused", FusedParams{intern(std::move(p))}, in);
  };
  return {
      .op = "fused",
      .samples = {chain("a chain", {4, 10}, {4, 10}, {4, 10}),
                  chain("images and channels", {2, 3, 16, 17}, {3, 1, 1}, {}),
                  chain("rows", {50, 30}, {30}, {1, 30}),
                  chain("columns", {50, 300}, {50, 1}, {50, 300}),
                  chain("both ways", {6, 1, 5}, {1, 7, 1}, {6, 7, 5}),
                  chain("whole vectors", {5, 6, 64}, {6, 1}, {64}),
                  chain("several pieces and a tail", {70001}, {70001}, {1}),
                  several("several outputs", {3, 1037}, {1037}),
                  several("images", {2, 3, 4, 5}, {2, 3, 4, 5}),
                  mixed("several dtypes", {3, 500}, {3, 500}),
                  mixed("against one value", {3, 5}, {}), integers(), longest(),
                  chain("one element", {1}, {1}, {}), chain("a number", {}, {}, {}),
                  chain("empty", {2, 0}, {2, 0}, {1})},
      .bad = {bad<Error>("fused: the program has 2 inputs, got 1",
                         [=](Device d) {
                           call_with({2, {call("add", {0, 1})}, {0}}, {zero({2}, DType::f32, d)});
                         }),
              bad<ShapeError>("fused: results must have one shape, got [2] and [3, 2]",
                              [=](Device d) {
                                call_with({2, {call("neg", {0}), call("add", {2, 1})}, {1}},
                                          {zero({2}, DType::f32, d), zero({3, 2}, DType::f32, d)});
                              }),
              bad<ShapeError>("add: shapes [2] and [3] do not broadcast",
                              [=](Device d) {
                                call_with({2, {call("add", {0, 1})}, {0}},
                                          {zero({2}, DType::f32, d), zero({3}, DType::f32, d)});
                              }),
              bad<DTypeError>("exp: expected a floating or complex dtype, got i64",
                              [=](Device d) {
                                call_with({1, {call("exp", {0})}, {0}}, {zero({2}, DType::i64, d)});
                              }),
              bad<Error>("fused: 'sum' is not computed element by element",
                         [=](Device) { intern({1, {call("sum", {0})}, {0}}); }),
              bad<Error>("fused: 'add' has 2 operands, not 1",
                         [=](Device) { intern({1, {call("add", {0})}, {0}}); }),
              bad<Error>("fused: instruction 0 reads %1, which is not known there",
                         [=](Device) { intern({1, {call("neg", {1})}, {0}}); }),
              bad<Error>("fused: a result comes out twice",
                         [=](Device) { intern({1, {call("neg", {0})}, {0, 0}}); }),
              bad<Error>("fused: output 0 is of no instruction",
                         [=](Device) { intern({1, {call("neg", {0})}, {1}}); }),
              bad<Error>("fused: a program has 1 to 8 inputs, not 9",
                         [=](Device) { intern({9, {call("neg", {0})}, {0}}); })}};
}

/// sigmoid(a * b) - a, and the sum, largest or smallest of that over some axes.
Sample reduced(const char* name, Fold fold, const Shape& a, const Shape& b, const Dims& axes,
               bool keepdim = false) {
  const Shape shape = broadcast_shapes(a, b, "fused_reduce");
  return {.name = name,
          .in = {x(a), x(b)},
          .call =
              [=](const Args& args) {
                const ProgramRef program = intern(
                    {2, {call("mul", {0, 1}), call("sigmoid", {2}), call("sub", {3, 0})}, {2}});
                return call_op("fused_reduce", FusedReduceParams{program, fold, {axes, keepdim}},
                               args.in);
              },
          .oracle =
              [=](const HostArgs& in) {
                const HostArray whole = each(1, [](const std::vector<double>& v) {
                  return std::vector{1 / (1 + std::exp(-v[0] * v[1])) - v[0]};
                })(in)[0];
                HostArray out;
                int64_t columns = 1;
                for (int i = 0; i < shape.rank(); ++i) {
                  if (axes.contains(i)) columns *= shape[i];
                  if (!axes.contains(i) || keepdim)
                    out.shape.push_back(axes.contains(i) ? 1 : shape[i]);
                }
                // A row of the last axes, or of the first in steps.
                const bool last = axes.empty() || axes.contains(shape.rank() - 1);
                const int64_t rows = numel(out.shape);
                for (int64_t r = 0; r < rows; ++r) {
                  double all = fold == Fold::sum ? 0 : fold == Fold::max ? -1e300 : 1e300;
                  for (int64_t k = 0; k < columns; ++k) {
                    const double v =
                        whole.values[static_cast<size_t>(last ? r * columns + k : k * rows + r)];
                    all = fold == Fold::sum   ? all + v
                          : fold == Fold::max ? std::max(all, v)
                                              : std::min(all, v);
                  }
                  out.values.push_back(all);
                }
                return std::vector{out};
              },
          .gradient = false};
}

OpCase fused_reduce_case() {
  const auto call_with = [](Program p, const Tensors& in) {
    call_op("fused_reduce", FusedReduceParams{intern(std::move(p)), Fold::sum, {{0}, false}}, in);
  };
  return {
      .op = "fused_reduce",
      .samples = {reduced("rows", Fold::sum, {50, 33}, {33}, {1}),
                  reduced("everything", Fold::sum, {5, 6, 64}, {6, 1}, {0, 1, 2}),
                  reduced("the largest of rows", Fold::max, {50, 32}, {50, 1}, {1}, true),
                  reduced("the smallest of all", Fold::min, {7, 129}, {}, {0, 1}),
                  reduced("planes", Fold::sum, {2, 3, 16, 17}, {3, 1, 1}, {2, 3}, true),
                  reduced("long rows", Fold::sum, {3, 5000}, {3, 5000}, {1}),
                  reduced("few long rows of whole vectors", Fold::max, {2, 16384}, {16384}, {1}),
                  reduced("several pieces and a tail", Fold::sum, {70001}, {70001}, {0}),
                  reduced("short rows", Fold::sum, {3000, 7}, {7}, {1}),
                  reduced("columns", Fold::sum, {40, 30}, {40, 30}, {0}),
                  reduced("no axis", Fold::sum, {4, 5}, {4, 5}, {}),
                  reduced("one element", Fold::sum, {1}, {1}, {0}),
                  reduced("empty", Fold::sum, {2, 0}, {2, 0}, {1})},
      .bad = {bad<Error>("fused_reduce: the program must have one result, not 2",
                         [=](Device d) {
                           call_with({1, {call("neg", {0}), call("exp", {0})}, {0, 1}},
                                     {zeros({2}, {.device = d})});
                         }),
              bad<DTypeError>("fused_reduce: expected a floating result, got i64",
                              [=](Device d) {
                                call_with({1, {call("neg", {0})}, {0}},
                                          {zeros({2}, {DType::i64, d})});
                              }),
              bad<ShapeError>("fused_reduce: axis 1 of [2, 0] is empty", [](Device d) {
                call_op("fused_reduce",
                        FusedReduceParams{
                            intern({1, {call("neg", {0})}, {0}}), Fold::max, {{1}, false}},
                        {zeros({2, 0}, {.device = d})});
              })}};
}

const Room kRoom([] { return std::vector<OpCase>{fused_case(), fused_reduce_case()}; });

}  // namespace
}  // namespace mica::cases

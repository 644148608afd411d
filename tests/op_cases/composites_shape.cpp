// Functions that move elements about, by other ops.
#include "tests/op_cases/composites.h"

namespace mica::cases {
namespace {

/// An array of `shape` whose element i is element from(i) of another.
template <class F>
std::vector<HostArray> moved(const HostArray& a, const Shape& shape, F&& from) {
  HostArray out{shape, {}};
  for (int64_t i = 0; i < numel(shape); ++i)
    out.values.push_back(a.values[static_cast<size_t>(from(i))]);
  return {out};
}
Oracle same_values(const Shape& shape) {
  return [shape](const HostArgs& in) { return moved(in[0], shape, [](int64_t i) { return i; }); };
}
Sample reshaped(const char* name, const Shape& from, const Shape& to,
                Tensor (*call)(const Tensor&)) {
  Sample s = composite_sample(
      name, {x(from)}, [call](const Args& a) { return call(a[0]); }, same_values(to));
  s.dtypes = kFloats;
  s.exact = true;
  return s;
}

OpCase t_case() {
  return {.op = "t",
          .samples = {composite_sample(
                          "matrix", {x({3, 4})}, [](const Args& a) { return t(a[0]); },
                          [](const HostArgs& in) {
                            return moved(in[0], {4, 3},
                                         [](int64_t i) { return i % 3 * 4 + i / 3; });
                          }),
                      reshaped("vector", {5}, {5}, t), reshaped("one element", {1}, {1}, t),
                      reshaped("empty", {0, 3}, {3, 0}, t)},
          .bad = {bad<ShapeError>("t: expected at most two axes, got [2, 2, 2]",
                                  [](Device d) { t(zeros({2, 2, 2}, {.device = d})); })}};
}

OpCase trace_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape)}, [](const Args& a) { return trace(a[0]); },
        [](const HostArgs& in) {
          double sum = 0;
          for (int64_t i = 0; i < std::min(in[0].shape[0], in[0].shape[1]); ++i)
            sum += at(in[0], {i, i});
          return std::vector{HostArray{{}, {sum}}};
        });
  };
  return {.op = "trace",
          .samples = {sample("square", {4, 4}), sample("wide", {2, 5}), sample("tall", {5, 2}),
                      sample("one element", {1, 1}), sample("empty", {0, 0})},
          .bad = {bad<ShapeError>("trace: expected a matrix, got [2]",
                                  [](Device d) { trace(zeros({2}, {.device = d})); })},
          .tolerance = kSeveralRoundings};
}

OpCase diag_case() {
  const auto of_vector = [](const char* name, int64_t n, int64_t k) {
    return composite_sample(
        name, {x({n})}, [k](const Args& a) { return diag(a[0], k); },
        [n, k](const HostArgs& in) {
          const int64_t size = n + std::abs(k);
          HostArray out{{size, size}, std::vector<double>(static_cast<size_t>(size * size))};
          for (int64_t i = 0; i < n; ++i) {
            const int64_t row = k < 0 ? i - k : i;
            const int64_t column = k > 0 ? i + k : i;
            out.values[static_cast<size_t>(row * size + column)] = at(in[0], {i});
          }
          return std::vector{out};
        });
  };
  const auto of_matrix = composite_sample(
      "of a matrix", {x({3, 4})}, [](const Args& a) { return diag(a[0], 1); },
      [](const HostArgs& in) { return moved(in[0], {3}, [](int64_t i) { return i * 5 + 1; }); });
  return {.op = "diag",
          .samples = {of_vector("of a vector", 3, 0), of_vector("above", 3, 2),
                      of_vector("below", 2, -1), of_vector("one element", 1, 0),
                      of_vector("empty", 0, 0), of_matrix},
          .bad = {bad<ShapeError>("diag: expected a vector or a matrix, got [2, 2, 2]",
                                  [](Device d) { diag(zeros({2, 2, 2}, {.device = d})); })}};
}

OpCase unflatten_case() {
  const auto to = [](const char* name, const Shape& from, int64_t axis, const Shape& sizes,
                     const Shape& result) {
    Sample s = composite_sample(
        name, {x(from)}, [=](const Args& a) { return unflatten(a[0], axis, sizes); },
        same_values(result));
    s.exact = true;
    return s;
  };
  return {.op = "unflatten",
          .samples = {to("middle", {2, 6, 3}, 1, {2, 3}, {2, 2, 3, 3}),
                      to("one size is left open", {6, 2}, 0, {-1, 2}, {3, 2, 2}),
                      to("one element", {1}, 0, {1, 1}, {1, 1}),
                      to("empty", {0, 4}, -1, {2, 2}, {0, 2, 2})},
          .bad = {bad<ShapeError>(
              "reshape", [](Device d) { unflatten(zeros({5}, {.device = d}), 0, {2, 2}); })}};
}

std::vector<OpCase> at_least_cases() {
  const auto undefined = [](Tensor (*f)(const Tensor&)) {
    return std::vector<BadCall>{bad<Error>("undefined", [f](Device) { f(Tensor()); })};
  };
  return {{.op = "atleast_1d",
           .samples = {reshaped("one element", {}, {1}, atleast_1d),
                       reshaped("matrix", {2, 3}, {2, 3}, atleast_1d),
                       reshaped("empty", {0}, {0}, atleast_1d)},
           .bad = undefined(atleast_1d)},
          {.op = "atleast_2d",
           .samples = {reshaped("one element", {}, {1, 1}, atleast_2d),
                       reshaped("vector", {3}, {1, 3}, atleast_2d),
                       reshaped("empty", {0}, {1, 0}, atleast_2d)},
           .bad = undefined(atleast_2d)},
          {.op = "atleast_3d",
           .samples = {reshaped("one element", {}, {1, 1, 1}, atleast_3d),
                       reshaped("vector", {3}, {1, 3, 1}, atleast_3d),
                       reshaped("matrix", {2, 3}, {2, 3, 1}, atleast_3d),
                       reshaped("empty", {0, 2}, {0, 2, 1}, atleast_3d)},
           .bad = undefined(atleast_3d)}};
}

/// Two tensors side by side: result element i comes from place from(i), counted through both.
OpCase stack_case(const char* op, Tensor (*call)(const Tensors&), const Shape& result,
                  int64_t (*from)(int64_t)) {
  const auto both = [](const HostArgs& in) {
    HostArray all = in[0];
    all.values.insert(all.values.end(), in[1].values.begin(), in[1].values.end());
    return all;
  };
  const auto sample = [&](const char* name, const Shape& shape, const Oracle& oracle) {
    return composite_sample(
        name, {x(shape), x(shape)}, [call](const Args& a) { return call({a[0], a[1]}); }, oracle);
  };
  const std::string name = op;
  const Shape one = name == "hstack" ? Shape{2} : name == "vstack" ? Shape{2, 1} : Shape{1, 1, 2};
  const Shape none = name == "hstack"   ? Shape{0, 6}
                     : name == "vstack" ? Shape{0, 3}
                                        : Shape{0, 3, 2};
  return {.op = op,
          .samples = {sample("matrices", {2, 3},
                             [=](const HostArgs& in) { return moved(both(in), result, from); }),
                      sample("one element", {1},
                             [=](const HostArgs& in) {
                               return moved(both(in), one, [](int64_t i) { return i; });
                             }),
                      sample("empty", {0, 3},
                             [=](const HostArgs& in) {
                               return moved(both(in), none, [](int64_t i) { return i; });
                             })},
          .bad = {bad<ShapeError>(name + ": expected at least one tensor",
                                  [call](Device) { call({}); })}};
}

OpCase unbind_case() {
  const auto call = [](const Args& a) { return unbind(a[0], 1); };
  const auto sample = [&](const char* name, const Shape& shape) {
    return Sample{.name = name, .in = {x(shape)}, .call = call, .oracle = [](const HostArgs& in) {
                    std::vector<HostArray> parts;
                    const int64_t n = in[0].shape[1];
                    for (int64_t k = 0; k < n; ++k)
                      parts.push_back(
                          moved(in[0], {in[0].shape[0]}, [=](int64_t i) { return i * n + k; })[0]);
                    return parts;
                  }};
  };
  return {.op = "unbind",
          .samples = {sample("columns", {3, 4}), sample("one element", {1, 1}),
                      sample("empty", {0, 2})},
          .bad = {bad<IndexError>("unbind: axis must be in [-1, 1), got 1",
                                  [](Device d) { unbind(zeros({2}, {.device = d}), 1); })}};
}

OpCase broadcast_tensors_case() {
  const auto sample = [](const char* name, const Shape& a, const Shape& b) {
    return Sample{.name = name,
                  .in = {x(a), x(b)},
                  .call = [](const Args& in) { return broadcast_tensors({in[0], in[1]}); },
                  .oracle =
                      [](const HostArgs& in) {
                        const Shape shape = broadcast_shapes(in[0].shape, in[1].shape, "oracle");
                        std::vector<HostArray> all;
                        for (const HostArray& each : in.in) {
                          HostArray out{shape, {}};
                          for (int64_t i = 0; i < numel(shape); ++i)
                            out.values.push_back(broadcast(each, shape, i));
                          all.push_back(out);
                        }
                        return all;
                      }};
  };
  return {.op = "broadcast_tensors",
          .samples = {sample("row and column", {3, 1}, {4}), sample("one element", {1}, {}),
                      sample("empty", {0, 3}, {3})},
          .bad = {bad<ShapeError>(
              "broadcast_tensors: shapes [2] and [3] do not broadcast", [](Device d) {
                broadcast_tensors({zeros({2}, {.device = d}), zeros({3}, {.device = d})});
              })}};
}

const Room kRoom([] {
  std::vector<OpCase> cases = at_least_cases();
  cases.push_back(t_case());
  cases.push_back(trace_case());
  cases.push_back(diag_case());
  cases.push_back(unflatten_case());
  cases.push_back(stack_case("hstack", hstack, {2, 6}, [](int64_t i) {
    return i % 6 < 3 ? i / 6 * 3 + i % 6 : 6 + i / 6 * 3 + i % 6 - 3;
  }));
  cases.push_back(stack_case("vstack", vstack, {4, 3}, [](int64_t i) { return i; }));
  cases.push_back(
      stack_case("dstack", dstack, {2, 3, 2}, [](int64_t i) { return i % 2 * 6 + i / 2; }));
  cases.push_back(unbind_case());
  cases.push_back(broadcast_tensors_case());
  return cases;
});

}  // namespace
}  // namespace mica::cases

// Norms and products of mica::linalg.
#include <cmath>
#include <limits>

#include "mica/ops/linalg/linalg.h"
#include "tests/op_cases/composites.h"

namespace mica::cases {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Tolerances kNorms = {{2e-13, 2e-5, 0, 0}, {1e-11, 1e-3, 0, 0}};

HostArray number(double value) { return {{}, {value}}; }

/// Of a 2 × 2 matrix: the sum of squares and the determinant give its singular values.
struct Two {
  double squares = 0;
  double determinant;
  explicit Two(const HostArray& a)
      : determinant(a.values[0] * a.values[3] - a.values[1] * a.values[2]) {
    for (const double v : a.values) squares += v * v;
  }
  double value(double sign) const {
    const double root = std::sqrt(squares * squares - 4 * determinant * determinant);
    return std::sqrt((squares + sign * root) / 2);
  }
};

Sample sample_of(const char* name, const Shape& shape, const TensorCall& call,
                 std::function<double(const HostArray&)> oracle) {
  return composite_sample(name, {x(shape).away(0.3).spread()}, call,
                          [oracle = std::move(oracle)](const HostArgs& in) {
                            return std::vector{number(oracle(in[0]))};
                          });
}

double sums(const HostArray& a, bool of_columns, bool largest) {
  double best = largest ? 0 : kInfinity;
  for (int64_t i = 0; i < a.shape[of_columns ? 1 : 0]; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < a.shape[of_columns ? 0 : 1]; ++j)
      sum += std::abs(of_columns ? at(a, {j, i}) : at(a, {i, j}));
    best = largest ? std::max(best, sum) : std::min(best, sum);
  }
  return best;
}

double root_of_squares(const HostArray& a) {
  double sum = 0;
  for (const double v : a.values) sum += v * v;
  return std::sqrt(sum);
}

OpCase vector_norm_case() {
  const auto third = [](const HostArray& a) {
    double sum = 0;
    for (const double v : a.values) sum += std::pow(std::abs(v), 3);
    return std::cbrt(sum);
  };
  return {
      .op = "linalg.vector_norm",
      .samples = {sample_of(
                      "all", {2, 3}, [](const Args& a) { return linalg::vector_norm(a[0]); },
                      root_of_squares),
                  sample_of(
                      "third", {5}, [](const Args& a) { return linalg::vector_norm(a[0], 3); },
                      third),
                  sample_of(
                      "one element", {1}, [](const Args& a) { return linalg::vector_norm(a[0]); },
                      root_of_squares),
                  sample_of(
                      "empty", {0}, [](const Args& a) { return linalg::vector_norm(a[0]); },
                      root_of_squares)},
      .bad = {bad<DTypeError>("linalg.norm: expected a floating or complex dtype",
                              [](Device d) { linalg::vector_norm(ones({2}, {DType::i64, d})); })},
      .tolerance = kNorms};
}

OpCase matrix_norm_case() {
  using linalg::MatrixNorm;
  const auto by = [](double ord) {
    return [ord](const Args& a) { return linalg::matrix_norm(a[0], ord); };
  };
  std::vector<Sample> samples;
  for (const bool columns : {true, false})
    for (const bool largest : {true, false})
      samples.push_back(sample_of(
          columns ? (largest ? "columns" : "least column") : (largest ? "rows" : "least row"),
          {3, 4}, by((columns ? 1 : kInfinity) * (largest ? 1 : -1)),
          [=](const HostArray& a) { return sums(a, columns, largest); }));
  samples.push_back(sample_of("largest value", {2, 2}, by(2),
                              [](const HostArray& a) { return Two(a).value(1); }));
  samples.push_back(sample_of("smallest value", {2, 2}, by(-2),
                              [](const HostArray& a) { return Two(a).value(-1); }));
  samples.push_back(sample_of(
      "nuclear", {2, 2}, [](const Args& a) { return linalg::norm(a[0], MatrixNorm::nuc); },
      [](const HostArray& a) { return Two(a).value(1) + Two(a).value(-1); }));
  for (const auto& [name, shape] :
       {std::pair{"squares", Shape{2, 3}}, {"one element", {1, 1}}, {"empty", {0, 3}}})
    samples.push_back(sample_of(
        name, shape, [](const Args& a) { return linalg::norm(a[0], MatrixNorm::fro); },
        root_of_squares));
  return {.op = "linalg.matrix_norm",
          .samples = samples,
          .bad = {bad<ShapeError>("linalg.matrix_norm: dim must be two different axes",
                                  [](Device d) {
                                    linalg::matrix_norm(ones({2, 2}, {.device = d}), 1, {0, -2});
                                  }),
                  bad<Unsupported>(
                      "linalg.matrix_norm: ord must be",
                      [](Device d) { linalg::matrix_norm(ones({2, 2}, {.device = d}), 3); }),
                  bad<ShapeError>(
                      "have no largest or smallest value",
                      [](Device d) { linalg::matrix_norm(ones({0, 0}, {.device = d}), 1); })},
          .tolerance = kNorms};
}

OpCase cond_case() {
  const auto inverse_of = [](const HostArray& a) {
    const double d = Two(a).determinant;
    return HostArray{a.shape,
                     {a.values[3] / d, -a.values[1] / d, -a.values[2] / d, a.values[0] / d}};
  };
  Sample singular = composite_sample(
      "singular", {x({2, 2}).of({1, 1, 1, 1})}, [](const Args& a) { return linalg::cond(a[0], 1); },
      [](const HostArgs&) { return std::vector{number(kInfinity)}; }, false);
  return {.op = "linalg.cond",
          .samples = {sample_of(
                          "by values", {2, 2}, [](const Args& a) { return linalg::cond(a[0]); },
                          [](const HostArray& a) { return Two(a).value(1) / Two(a).value(-1); }),
                      sample_of(
                          "columns", {2, 2}, [](const Args& a) { return linalg::cond(a[0], 1); },
                          [=](const HostArray& a) {
                            return sums(a, true, true) * sums(inverse_of(a), true, true);
                          }),
                      singular,
                      composite_sample(
                          "one element", {x({1, 1}).of({3})},
                          [](const Args& a) { return linalg::cond(a[0]); },
                          [](const HostArgs&) { return std::vector{number(1)}; }, false)},
          .bad = {bad<ShapeError>("linalg.cond: expected square matrices",
                                  [](Device d) { linalg::cond(ones({2, 3}, {.device = d}), 1); })},
          .no_empty = "it has no singular values",
          .tolerance = kNorms};
}

HostArray product(const HostArray& a, const HostArray& b) {
  HostArray c{{a.shape[0], b.shape[1]}, {}};
  for (int64_t i = 0; i < a.shape[0]; ++i)
    for (int64_t j = 0; j < b.shape[1]; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.shape[1]; ++k) sum += at(a, {i, k}) * at(b, {k, j});
      c.values.push_back(sum);
    }
  return c;
}

OpCase multi_dot_case() {
  const auto sample = [](const char* name, const Shape& a, const Shape& b, const Shape& c) {
    return composite_sample(
        name, {x(a), x(b), x(c)},
        [](const Args& in) { return linalg::multi_dot({in[0], in[1], in[2]}); },
        [](const HostArgs& in) { return std::vector{product(product(in[0], in[1]), in[2])}; });
  };
  Sample vectors = composite_sample(
      "vectors", {x({3}), x({3, 2}), x({2})},
      [](const Args& in) { return linalg::multi_dot({in[0], in[1], in[2]}); },
      [](const HostArgs& in) {
        const HostArray row{{1, 3}, in[0].values};
        const HostArray column{{2, 1}, in[2].values};
        return std::vector{number(product(product(row, in[1]), column).values[0])};
      });
  return {
      .op = "linalg.multi_dot",
      .samples = {sample("left first", {2, 3}, {3, 4}, {4, 2}),
                  sample("right first", {5, 4}, {4, 5}, {5, 1}), vectors,
                  sample("one element", {1, 1}, {1, 1}, {1, 1}),
                  sample("empty", {0, 2}, {2, 3}, {3, 1})},
      .bad = {bad<ShapeError>("linalg.multi_dot: expected at least 2 tensors, got 1",
                              [](Device d) { linalg::multi_dot({ones({2, 2}, {.device = d})}); }),
              bad<ShapeError>("linalg.multi_dot: tensors 0 and 1 do not fit",
                              [](Device d) {
                                const Tensor m = ones({2, 3}, {.device = d});
                                linalg::multi_dot({m, m});
                              })},
      .tolerance = kSeveralRoundings};
}

OpCase cross_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape), x(shape)}, [](const Args& in) { return linalg::cross(in[0], in[1]); },
        [](const HostArgs& in) {
          HostArray out = in[0];
          for (size_t i = 0; i < out.values.size(); i += 3)
            for (size_t k = 0; k < 3; ++k) {
              const size_t p = i + (k + 1) % 3;
              const size_t q = i + (k + 2) % 3;
              out.values[i + k] =
                  in[0].values[p] * in[1].values[q] - in[0].values[q] * in[1].values[p];
            }
          return std::vector{out};
        });
  };
  return {.op = "linalg.cross",
          .samples = {sample("vectors", {4, 3}), sample("empty", {0, 3})},
          .bad = {bad<ShapeError>("linalg.cross: axis -1 must have a size of 3",
                                  [](Device d) {
                                    const Tensor v = ones({2}, {.device = d});
                                    linalg::cross(v, v);
                                  })},
          .no_single = "an axis has three elements",
          .tolerance = kSeveralRoundings};
}

OpCase vecdot_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape), x(shape)}, [](const Args& in) { return linalg::vecdot(in[0], in[1]); },
        [](const HostArgs& in) {
          const Shape& s = in[0].shape;
          HostArray out{{s[0]}, {}};
          for (int64_t i = 0; i < s[0]; ++i) {
            double sum = 0;
            for (int64_t j = 0; j < s[1]; ++j) sum += at(in[0], {i, j}) * at(in[1], {i, j});
            out.values.push_back(sum);
          }
          return std::vector{out};
        });
  };
  return {
      .op = "linalg.vecdot",
      .samples = {sample("rows", {3, 4}), sample("one element", {1, 1}), sample("empty", {0, 3})},
      .bad = {bad<ShapeError>("linalg.vecdot: expected at least one axis",
                              [](Device d) {
                                const Tensor v = ones({}, {.device = d});
                                linalg::vecdot(v, v);
                              })},
      .tolerance = kSeveralRoundings};
}

OpCase vander_case() {
  const auto sample = [](const char* name, const Shape& shape, std::optional<int64_t> n) {
    return composite_sample(
        name, {x(shape)}, [n](const Args& in) { return linalg::vander(in[0], n); },
        [n](const HostArgs& in) {
          const int64_t count = n.value_or(in[0].shape.back());
          HostArray out{in[0].shape, {}};
          out.shape.push_back(count);
          for (const double v : in[0].values)
            for (int64_t k = 0; k < count; ++k) out.values.push_back(std::pow(v, k));
          return std::vector{out};
        });
  };
  Sample single = sample("one element", {1}, 1);
  single.gradient = false;  // the power 0 is constant
  return {.op = "linalg.vander",
          .samples = {sample("square", {3}, {}), sample("five powers", {2, 3}, 5), single,
                      sample("empty", {0}, 2)},
          .bad = {bad<ShapeError>("linalg.vander: N must be positive, got 0",
                                  [](Device d) { linalg::vander(ones({2}, {.device = d}), 0); })},
          .tolerance = kSeveralRoundings};
}

const Room kRoom([] {
  return std::vector<OpCase>{vector_norm_case(), matrix_norm_case(), cond_case(),  multi_dot_case(),
                             cross_case(),       vecdot_case(),      vander_case()};
});

}  // namespace
}  // namespace mica::cases

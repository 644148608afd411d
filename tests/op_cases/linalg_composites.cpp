// Functions of mica::linalg that are made of the factors in linalg.cpp.
#include <cmath>
#include <limits>

#include "mica/ops/linalg/linalg.h"
#include "tests/op_cases/complex_pairs.h"
#include "tests/op_cases/composites.h"

namespace mica::cases {
namespace {

constexpr Tolerances kFactors = {{2e-13, 2e-4, 0, 0}, {1e-11, 3e-3, 0, 0}};

using Host = HostArray;

Host matrix_of(const HostArgs& in, size_t i = 0) { return in[i]; }

Host product(const Host& a, const Host& b) {
  const int64_t m = a.shape[0];
  const int64_t k = a.shape[1];
  const int64_t n = b.shape[1];
  Host c{{m, n}, {}};
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += at(a, {i, l}) * at(b, {l, j});
      c.values.push_back(sum);
    }
  return c;
}

Host turned(const Host& a) {
  Host t{{a.shape[1], a.shape[0]}, {}};
  for (int64_t j = 0; j < a.shape[1]; ++j)
    for (int64_t i = 0; i < a.shape[0]; ++i) t.values.push_back(at(a, {i, j}));
  return t;
}

/// Gauss and Jordan: the inverse, and the determinant.
struct Inverse {
  Host inverse;
  double determinant = 1;

  explicit Inverse(Host a) {
    const int64_t n = a.shape[0];
    inverse = Host{{n, n}, std::vector<double>(static_cast<size_t>(n * n))};
    const auto of = [n](Host& h, int64_t i, int64_t j) -> double& {
      return h.values[static_cast<size_t>(i * n + j)];
    };
    for (int64_t i = 0; i < n; ++i) of(inverse, i, i) = 1;
    for (int64_t j = 0; j < n; ++j) {
      int64_t best = j;
      for (int64_t i = j; i < n; ++i)
        if (std::abs(of(a, i, j)) > std::abs(of(a, best, j))) best = i;
      for (int64_t k = 0; best != j && k < n; ++k) {
        std::swap(of(a, j, k), of(a, best, k));
        std::swap(of(inverse, j, k), of(inverse, best, k));
      }
      const double pivot = of(a, j, j);
      determinant *= best == j ? pivot : -pivot;
      for (int64_t k = 0; k < n; ++k) of(a, j, k) /= pivot, of(inverse, j, k) /= pivot;
      for (int64_t i = 0; i < n; ++i) {
        const double factor = i == j ? 0 : of(a, i, j);
        for (int64_t k = 0; factor != 0 && k < n; ++k) {
          of(a, i, k) -= factor * of(a, j, k);
          of(inverse, i, k) -= factor * of(inverse, j, k);
        }
      }
    }
  }
};

/// A complex matrix as the real one of twice the size that is multiplied, inverted and adjoined
/// alike, and back.
Host embedded(const Host& pairs) {
  const int64_t m = pairs.shape[0];
  const int64_t n = pairs.shape[1];
  Host real{{2 * m, 2 * n}, {}};
  for (int64_t i = 0; i < 2 * m; ++i)
    for (int64_t j = 0; j < 2 * n; ++j) {
      const bool turned_down = i >= m;
      const bool turned_right = j >= n;
      const double value = at(pairs, {i % m, j % n, turned_down == turned_right ? 0 : 1});
      real.values.push_back(turned_right && !turned_down ? -value : value);
    }
  return real;
}
Host extracted(const Host& real) {
  const int64_t m = real.shape[0] / 2;
  const int64_t n = real.shape[1] / 2;
  Host pairs{{m, n, 2}, {}};
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      pairs.values.insert(pairs.values.end(), {at(real, {i, j}), at(real, {m + i, j})});
  return pairs;
}
/// A sample with complex matrices, whose oracle sees them as real ones.
Sample complex_sample(const Sample& real) {
  Sample s = of_complex(real);
  s.oracle = [oracle = real.oracle](const HostArgs& in) {
    HostArgs wide;
    for (const Host& h : in.in) wide.in.push_back(embedded(h));
    return std::vector{extracted(oracle(wide)[0])};
  };
  return s;
}
/// Those of the samples with square matrices that are drawn, complex too.
OpCase with_complex(OpCase c) {
  const size_t n = c.samples.size();
  for (size_t i = 0; i < n; ++i) {
    const Sample& s = c.samples[i];
    const bool matrices = std::all_of(s.in.begin(), s.in.end(), [](const Input& in) {
      return in.values.empty() && in.shape.rank() == 2 && numel(in.shape) > 0;
    });
    if (matrices && s.in[0].shape[0] == s.in[0].shape[1]) c.samples.push_back(complex_sample(s));
  }
  return c;
}

/// Matrices whose inverse is far from infinite, and what the rest of the room is asked for.
Tensor regular(const Tensor& t) {
  const Tensor one = eye(t.size(t.rank() - 2), t.size(t.rank() - 1), {t.dtype(), t.device()});
  return t + 5.0 * one;
}
Host regular(Host h) {
  const int64_t n = h.shape.back();
  for (int64_t i = 0; i < std::min(h.shape[0], n); ++i)
    h.values[static_cast<size_t>(i * n + i)] += 5;
  return h;
}

using OfMatrix = std::function<Host(const Host&)>;

/// A function of one regular matrix.
Sample matrix_sample(const char* name, const Shape& shape, const TensorCall& call,
                     const OfMatrix& oracle, bool gradient = true) {
  return composite_sample(
      name, {x(shape)}, call,
      [oracle](const HostArgs& in) { return std::vector{oracle(regular(matrix_of(in)))}; },
      gradient);
}

BadCall not_square(const std::string& op, const std::function<void(const Tensor&)>& f) {
  return bad<ShapeError>(op + ": expected square matrices (…, n, n), got [2, 3]",
                         [f](Device d) { f(zeros({2, 3}, {.device = d})); });
}

OpCase square_case(const char* op, Tensor (*f)(const Tensor&), const OfMatrix& oracle) {
  const auto call = [f](const Args& a) { return f(regular(a[0])); };
  return {.op = op,
          .samples = {matrix_sample("a matrix", {4, 4}, call, oracle),
                      matrix_sample("two rows", {2, 2}, call, oracle),
                      matrix_sample("one element", {1, 1}, call, oracle),
                      matrix_sample("empty", {0, 0}, call, oracle)},
          .bad = {not_square(op, [f](const Tensor& t) { f(t); })},
          .tolerance = kFactors};
}

OpCase inv_case() {
  OpCase c =
      square_case("linalg.inv", linalg::inv, [](const Host& a) { return Inverse(a).inverse; });
  c.bad.push_back(bad<LinAlgError>(
      "linalg.inv: (batch element 1) the matrix is singular",
      [](Device d) { linalg::inv(tensor<float>({1, 0, 0, 1, 1, 1, 1, 1}, {2, 2, 2}, d)); }));
  return c;
}

Number determinant_of_two(const Host& pairs) {
  const Numbers v = numbers_of(pairs);
  return v[0] * v[3] - v[1] * v[2];
}

OpCase det_case() {
  const auto number = [](const Host& a) { return Host{{}, {Inverse(a).determinant}}; };
  OpCase c = square_case("linalg.det", linalg::det, number);
  // Its gradient is the matrix of cofactors, of which a singular one has some too.
  c.samples.push_back(
      {.name = "singular",
       .in = {x({2, 2}).of({1, 2, 2, 4})},
       .call = [](const Args& a) -> Tensors {
         const Tensor leaf = a[0].detach();
         leaf.set_requires_grad();
         return {linalg::det(leaf).detach(), grad({linalg::det(leaf)}, {leaf})[0]};
       },
       .oracle =
           [](const HostArgs&) { return std::vector{Host{{}, {0}}, Host{{2, 2}, {4, -2, -2, 1}}}; },
       .dtypes = kWide,
       .gradient = false,
       .compiled = false});
  for (Sample& s : c.samples)
    if (s.name == "one element")
      s.gradient = false;  // whose second derivative is 0 but for rounding
  c.samples.push_back(
      {.name = "complex",
       .in = {x({2, 2, 2})},
       .call = [](const Args& a) -> Tensors { return {shown(linalg::det(numbers(a[0])))}; },
       .oracle =
           [](const HostArgs& in) {
             return std::vector{pairs_of({}, {determinant_of_two(in[0])})};
           },
       .dtypes = kWide});
  return c;
}

OpCase slogdet_case() {
  const auto call = [](const Tensor& a) { return linalg::slogdet(a).logabsdet; };
  OpCase c = square_case("linalg.slogdet", +call, [](const Host& a) {
    return Host{{}, {std::log(std::abs(Inverse(a).determinant))}};
  });
  Sample signs = composite_sample(
      "signs", {x({3, 2, 2}).of({1, 0, 0, -1, 1, 2, 2, 4, 0, 2, -1, 0})},
      [](const Args& a) { return linalg::slogdet(a[0]).sign; },
      [](const HostArgs&) { return std::vector{Host{{3}, {-1, 0, 1}}}; }, false);
  Sample logarithm = composite_sample(
      "logdet", {x({2, 2, 2}).of({1, 0, 0, -1, 0, 2, -1, 0})},
      [](const Args& a) { return linalg::logdet(a[0]); },
      [](const HostArgs&) {
        return std::vector{Host{{2}, {std::numeric_limits<double>::quiet_NaN(), std::log(2)}}};
      },
      false);
  c.samples.push_back(signs);
  c.samples.push_back(logarithm);
  c.samples.push_back({.name = "complex",
                       .in = {x({2, 2, 2})},
                       .call = [](const Args& a) -> Tensors {
                         const auto f = linalg::slogdet(numbers(a[0]));
                         return {shown(f.sign), f.logabsdet, shown(linalg::logdet(numbers(a[0])))};
                       },
                       .oracle =
                           [](const HostArgs& in) {
                             const Number d = determinant_of_two(in[0]);
                             return std::vector{pairs_of({}, {d / std::abs(d)}),
                                                Host{{}, {std::log(std::abs(d))}},
                                                pairs_of({}, {std::log(d)})};
                           },
                       .dtypes = kWide});
  return c;
}

OpCase lu_case() {
  const auto call = [](const Args& a) {
    const auto f = linalg::lu(a[0]);
    return matmul(matmul(f.p, f.l), f.u) + 0.0 * sum(f.l);
  };
  const auto sample = [&](const char* name, const Shape& shape) {
    return composite_sample(name, {x(shape)}, call,
                            [](const HostArgs& in) { return std::vector{in[0]}; });
  };
  Sample parts = composite_sample(
      "parts", {x({2, 2}).of({1, 2, 4, 4})},
      [](const Args& a) {
        const auto f = linalg::lu(a[0]);
        return concat({f.p, f.l, f.u}, 0);
      },
      [](const HostArgs&) {
        return std::vector{Host{{6, 2}, {0, 1, 1, 0, 1, 0, 0.25, 1, 4, 4, 0, 1}}};
      });
  return {.op = "linalg.lu",
          .samples = {sample("square", {4, 4}), sample("tall", {5, 3}), sample("wide", {3, 5}),
                      sample("a batch", {2, 9, 2, 2}), parts, sample("one element", {1, 1}),
                      sample("empty", {0, 3})},
          .bad = {bad<ShapeError>("linalg.lu_factor: expected a matrix",
                                  [](Device d) { linalg::lu(ones({2}, {.device = d})); })},
          .tolerance = kFactors};
}

/// X with A X = B by the host's inverse.
Oracle solution(bool adjoint, bool left) {
  return [=](const HostArgs& in) {
    const Host inverse = Inverse(regular(in[0])).inverse;
    const Host used = adjoint ? turned(inverse) : inverse;
    return std::vector{left ? product(used, in[1]) : product(in[1], used)};
  };
}

OpCase lu_solve_case() {
  const auto sample = [](const char* name, const Shape& a, const Shape& b, bool left,
                         bool adjoint) {
    return composite_sample(
        name, {x(a), x(b)},
        [=](const Args& in) {
          const auto f = linalg::lu_factor(regular(in[0]));
          return linalg::lu_solve(f.lu, f.pivots, in[1], left, adjoint);
        },
        solution(adjoint, left));
  };
  return {.op = "linalg.lu_solve",
          .samples = {sample("plain", {3, 3}, {3, 2}, true, false),
                      sample("adjoint", {3, 3}, {3, 2}, true, true),
                      sample("from the right", {3, 3}, {2, 3}, false, false),
                      sample("from the right, adjoint", {3, 3}, {2, 3}, false, true),
                      sample("one element", {1, 1}, {1, 1}, true, false),
                      sample("empty", {0, 0}, {0, 1}, true, false)},
          .bad = {bad<ShapeError>(
              "linalg.lu_solve: B must be (…, 2, k) for factors [2, 2], got [3, 1]",
              [](Device d) {
                linalg::lu_solve(ones({2, 2}, {.device = d}), ones({2}, {DType::i32, d}),
                                 ones({3, 1}, {.device = d}));
              })},
          .tolerance = kFactors};
}

OpCase cholesky_solve_case() {
  const auto sample = [](const char* name, const Shape& a, const Shape& b, bool upper) {
    return composite_sample(
        name, {x(a).in(-0.5, 0.5), x(b)},
        [upper](const Args& in) {
          const Tensor l = tril(regular(in[0]));
          return concat({linalg::cholesky_solve(in[1], upper ? adjoint(l) : l, upper),
                         linalg::cholesky_inverse(l)},
                        1);
        },
        [](const HostArgs& in) {
          Host l = regular(in[0]);
          const int64_t n = l.shape[0];
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = i + 1; j < n; ++j) l.values[static_cast<size_t>(i * n + j)] = 0;
          const Host inverse = Inverse(product(l, turned(l))).inverse;
          const Host x = product(inverse, in[1]);
          Host both{{n, x.shape[1] + n}, {}};
          for (int64_t i = 0; i < n; ++i) {
            for (int64_t j = 0; j < x.shape[1]; ++j) both.values.push_back(at(x, {i, j}));
            for (int64_t j = 0; j < n; ++j) both.values.push_back(at(inverse, {i, j}));
          }
          return std::vector{both};
        });
  };
  return {
      .op = "cholesky_solve",
      .samples = {sample("lower", {3, 3}, {3, 2}, false), sample("upper", {3, 3}, {3, 2}, true),
                  sample("one element", {1, 1}, {1, 1}, false),
                  sample("empty", {0, 0}, {0, 1}, false)},
      .bad = {not_square("cholesky_solve", [](const Tensor& t) { linalg::cholesky_solve(t, t); })},
      .tolerance = kFactors};
}

/// (Aᵀ A)⁻¹ Aᵀ of more rows than columns, the same of Aᵀ otherwise.
Host pseudo_inverse(const Host& a) {
  if (a.shape[0] < a.shape[1]) return turned(pseudo_inverse(turned(a)));
  return product(Inverse(product(turned(a), a)).inverse, turned(a));
}

OpCase pinv_case() {
  const auto call = [](const Args& a) { return linalg::pinv(regular(a[0])); };
  Sample hermitian = composite_sample(
      "hermitian", {x({3, 3})},
      [](const Args& a) {
        const Tensor m = regular(a[0]);
        return linalg::pinv(matmul(m, adjoint(m)), {.hermitian = true});
      },
      [](const HostArgs& in) {
        const Host m = regular(in[0]);
        return std::vector{Inverse(product(m, turned(m))).inverse};
      });
  Sample singular = composite_sample(
      "singular, equal values", {x({3, 3}).of({2, 0, 0, 0, 2, 0, 0, 0, 0})},
      [](const Args& a) { return linalg::pinv(a[0]); },
      [](const HostArgs&) { return std::vector{Host{{3, 3}, {0.5, 0, 0, 0, 0.5, 0, 0, 0, 0}}}; },
      false);
  return {.op = "linalg.pinv",
          .samples = {matrix_sample("tall", {4, 3}, call, pseudo_inverse),
                      matrix_sample("wide", {2, 4}, call, pseudo_inverse),
                      matrix_sample("square", {3, 3}, call, pseudo_inverse), hermitian, singular,
                      matrix_sample("one element", {1, 1}, call, pseudo_inverse),
                      composite_sample(
                          "empty", {x({0, 3})}, [](const Args& a) { return linalg::pinv(a[0]); },
                          [](const HostArgs&) { return std::vector{Host{{3, 0}, {}}}; })},
          .bad = {bad<ShapeError>("linalg.pinv: expected a matrix",
                                  [](Device d) { linalg::pinv(ones({2}, {.device = d})); })},
          .tolerance = Tolerances{{2e-13, 2e-4, 0, 0}, {1e-10, 5e-3, 0, 0}}};
}

OpCase lstsq_case() {
  const auto sample = [](const char* name, const Shape& a, const Shape& b,
                         linalg::LstsqDriver way) {
    return composite_sample(
        name, {x(a), x(b)},
        [way](const Args& in) { return linalg::lstsq(regular(in[0]), in[1], {}, way).solution; },
        [](const HostArgs& in) {
          return std::vector{product(pseudo_inverse(regular(in[0])), in[1])};
        });
  };
  using linalg::LstsqDriver;
  Sample residuals = composite_sample(
      "residuals", {x({2, 1}).of({1, 2}), x({2, 1}).of({1, 3})},
      [](const Args& in) { return linalg::lstsq(in[0], in[1]).residuals; },
      [](const HostArgs&) { return std::vector{Host{{1}, {0.2}}}; });
  return {.op = "linalg.lstsq",
          .samples = {sample("tall", {5, 3}, {5, 2}, LstsqDriver::gels),
                      sample("wide", {3, 5}, {3, 2}, LstsqDriver::gels),
                      sample("by values, tall", {5, 3}, {5, 2}, LstsqDriver::gelsd),
                      sample("by values, wide", {3, 5}, {3, 2}, LstsqDriver::gelsy), residuals,
                      sample("one element", {1, 1}, {1, 1}, LstsqDriver::gelss),
                      sample("empty", {3, 3}, {3, 0}, LstsqDriver::gels)},
          .bad = {bad<ShapeError>("linalg.lstsq: B must be (…, 3, k) for A [3, 2], got [2, 2]",
                                  [](Device d) {
                                    linalg::lstsq(ones({3, 2}, {.device = d}),
                                                  ones({2, 2}, {.device = d}));
                                  })},
          .tolerance = Tolerances{{2e-13, 2e-4, 0, 0}, {1e-10, 5e-3, 0, 0}}};
}

OpCase matrix_rank_case() {
  const auto sample = [](const char* name, const Shape& shape, std::vector<double> given,
                         std::vector<double> ranks, const Shape& result,
                         const linalg::RankOptions& options = {}) {
    Sample s = composite_sample(
        name, {given.empty() ? x(shape) : x(shape).of(given)},
        [=](const Args& a) { return linalg::matrix_rank(a[0], options); },
        [=](const HostArgs&) { return std::vector{Host{result, ranks}}; }, false);
    s.exact = true;
    return s;
  };
  return {.op = "linalg.matrix_rank",
          .samples = {sample("two of three", {2, 2, 2}, {1, 0, 0, 1, 1, 1, 1, 1}, {2, 1}, {2}),
                      sample("by a bound", {2, 2}, {4, 0, 0, 1}, {1}, {}, {.atol = 2}),
                      sample("hermitian", {2, 2}, {1, 1, 1, 1}, {1}, {}, {.hermitian = true}),
                      sample("one element", {1, 1}, {0}, {0}, {}),
                      sample("empty", {0, 3}, {}, {0}, {})},
          .bad = {bad<ShapeError>("linalg.matrix_rank: expected a matrix", [](Device d) {
            linalg::matrix_rank(ones({2}, {.device = d}));
          })}};
}

OpCase matrix_power_case() {
  const auto sample = [](const char* name, const Shape& shape, int64_t n) {
    return composite_sample(
        name, {x(shape).in(-0.5, 0.5)},
        [n](const Args& a) { return linalg::matrix_power(regular(a[0]) * 0.3, n); },
        [n](const HostArgs& in) {
          Host a = regular(in[0]);
          for (double& v : a.values) v *= 0.3;
          const int64_t size = a.shape[0];
          Host r{{size, size}, std::vector<double>(static_cast<size_t>(size * size))};
          for (int64_t i = 0; i < size; ++i) r.values[static_cast<size_t>(i * size + i)] = 1;
          const Host factor = n < 0 ? Inverse(a).inverse : a;
          for (int64_t i = 0; i < std::abs(n); ++i) r = product(r, factor);
          return std::vector{r};
        },
        n != 0);
  };
  return {.op = "linalg.matrix_power",
          .samples = {sample("once", {3, 3}, 1), sample("five times", {3, 3}, 5),
                      sample("of the inverse", {2, 2}, -3), sample("none", {2, 2}, 0),
                      sample("one element", {1, 1}, 2), sample("empty", {0, 0}, 3)},
          .bad = {not_square("linalg.matrix_power",
                             [](const Tensor& t) { linalg::matrix_power(t, 2); })},
          .tolerance = kFactors};
}

OpCase tensorinv_case() {
  const auto flat = [](const Host& a) {
    const int64_t n = a.shape[0] * a.shape[1];
    return Host{{n, n}, a.values};
  };
  const auto sample = [flat](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape)},
        [](const Args& a) {
          const int64_t n = a[0].size(0) * a[0].size(1);
          return linalg::tensorinv(reshape(regular(reshape(a[0], {n, n})), a[0].shape()));
        },
        [flat](const HostArgs& in) {
          const Shape& s = in[0].shape;
          const Host inverse = Inverse(regular(flat(in[0]))).inverse;
          return std::vector{Host{{s[2], s[3], s[0], s[1]}, inverse.values}};
        });
  };
  return {
      .op = "linalg.tensorinv",
      .samples = {sample("two and two", {2, 3, 3, 2}), sample("one element", {1, 1, 1, 1}),
                  sample("empty", {0, 2, 2, 0})},
      .bad = {bad<ShapeError>("linalg.tensorinv: ind must be in [1, 2), got 2",
                              [](Device d) { linalg::tensorinv(ones({2, 2}, {.device = d})); })},
      .tolerance = kFactors};
}

OpCase tensorsolve_case() {
  const auto sample = [](const char* name, const Shape& a, const Shape& b) {
    const int64_t n = numel(b);
    return composite_sample(
        name, {x(a), x(b)},
        [n](const Args& in) {
          const Tensor m = reshape(regular(reshape(in[0], {n, n})), in[0].shape());
          return linalg::tensorsolve(m, in[1]);
        },
        [=](const HostArgs& in) {
          const Host inverse = Inverse(regular(Host{{n, n}, in[0].values})).inverse;
          Shape shape;
          for (int i = b.rank(); i < a.rank(); ++i) shape.push_back(a[i]);
          return std::vector{Host{shape, product(inverse, Host{{n, 1}, in[1].values}).values}};
        });
  };
  return {.op = "linalg.tensorsolve",
          .samples = {sample("two axes", {2, 3, 6}, {2, 3}), sample("one element", {1, 1}, {1}),
                      sample("empty", {0, 0}, {0})},
          .bad = {bad<ShapeError>("linalg.tensorsolve: A [2, 3] must hold the square of B's [2] "
                                  "elements",
                                  [](Device d) {
                                    linalg::tensorsolve(ones({2, 3}, {.device = d}),
                                                        ones({2}, {.device = d}));
                                  })},
          .tolerance = kFactors};
}

const Room kRoom([] {
  return std::vector<OpCase>{with_complex(inv_case()),
                             det_case(),
                             slogdet_case(),
                             lu_case(),
                             with_complex(lu_solve_case()),
                             cholesky_solve_case(),
                             with_complex(pinv_case()),
                             with_complex(lstsq_case()),
                             matrix_rank_case(),
                             with_complex(matrix_power_case()),
                             tensorinv_case(),
                             tensorsolve_case()};
});

}  // namespace
}  // namespace mica::cases

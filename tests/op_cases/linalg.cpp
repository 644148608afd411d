// Factors of matrices and equations. Where a factor is determined but for signs, what is compared
// has none.
#include "mica/ops/linalg/linalg.h"

#include <cmath>

#include "mica/core/check.h"
#include "mica/ops/linalg/triangular.h"
#include "tests/op_cases/complex_pairs.h"
#include "tests/op_cases/composites.h"

namespace mica::cases {
namespace {

constexpr Tolerances kFactors = {{2e-13, 2e-4, 0, 0}, {1e-11, 2e-3, 0, 0}};

Tensor mt(const Tensor& t) { return adjoint(t); }
/// Squares of magnitudes, which know no signs and phases.
Tensor sizes(const Tensor& t) { return square(is_complex(t.dtype()) ? abs(t) : t); }
Tensor one(const Tensor& t) {
  return eye(t.size(t.rank() - 2), t.size(t.rank() - 1), {t.dtype(), t.device()});
}
/// Hermitian and positive definite.
Tensor definite(const Tensor& t) { return matmul(t, mt(t)) + 2.0 * one(t); }
/// Far from singular, with rows that pivoting exchanges.
Tensor regular(const Tensor& t) { return roll(t + 5.0 * one(t), {1}, {-2}); }
/// With diagonal elements that are apart from each other.
Tensor spread_out(const Tensor& t) {
  const Tensor steps = arange(1, t.size(t.rank() - 1) + 1, 1, {real_dtype(t.dtype()), t.device()});
  return 0.3 * t + 3.0 * one(t) * steps;
}

/// The samples, and each with complex numbers too.
std::vector<Sample> and_complex(std::vector<Sample> samples) {
  const size_t n = samples.size();
  for (size_t i = 0; i < n; ++i) samples.push_back(of_complex(samples[i]));
  return samples;
}

/// One matrix, of the sizes that kernels take apart; more rows or columns where `by` is not 0.
std::vector<Sample> matrices(const std::function<Tensors(const Args&)>& call, int64_t rows = 0,
                             int64_t columns = 0) {
  const auto sized = [&](Shape batch, int64_t n) {
    batch.push_back(n + rows);
    batch.push_back(n + columns);
    return batch;
  };
  const auto sample = [&](const char* name, const Shape& shape) {
    return Sample{.name = name, .in = {x(shape)}, .call = call, .dtypes = kWide};
  };
  std::vector<Sample> list = {sample("one matrix", sized({}, 4)), sample("three", sized({3}, 3)),
                              sample("a batch", sized({2, 9}, 2)),
                              sample("no matrices", sized({0}, 3))};
  Sample large = sample("past the lanes", sized({}, 33));
  large.gradient = false;
  list.push_back(large);
  if (rows == 0 && columns == 0) {
    list.push_back(sample("one element", {1, 1}));
    list.push_back(sample("empty", {2, 0, 0}));
  }
  return and_complex(std::move(list));
}

/// So large that no group of threads of a GPU has it in shared memory.
Sample past_shared_memory(const Shape& shape, const std::function<Tensors(const Args&)>& call) {
  return {.name = "past shared memory",
          .in = {x(shape)},
          .call = call,
          .dtypes = kWide,
          .gradient = false,
          .layouts = false};
}

std::vector<BadCall> not_square(const std::string& op,
                                const std::function<void(const Tensor&)>& f) {
  return {bad<ShapeError>(op + ": expected square matrices (…, n, n), got [2, 3]",
                          [f](Device d) { f(zeros({2, 3}, {.device = d})); }),
          bad<ShapeError>(op + ": expected a matrix or a batch of them (…, m, n), got [3]",
                          [f](Device d) { f(zeros({3}, {.device = d})); })};
}
BadCall refused_dtype(const std::string& op, const std::function<void(const Tensor&)>& f) {
  return bad<DTypeError>(op, [f](Device d) { f(zeros({2, 2}, {DType::i64, d})); });
}

OpCase cholesky_case() {
  OpCase c{.op = "cholesky",
           .samples = matrices([](const Args& a) -> Tensors {
             const auto f = linalg::cholesky_ex(definite(a[0]));
             return {f.l, f.info};
           }),
           .bad = not_square("linalg.cholesky", [](const Tensor& t) { linalg::cholesky(t); }),
           .tolerance = kFactors};
  c.samples.push_back(
      {.name = "upper",
       .in = {x({3, 3})},
       .call = [](const Args& a) -> Tensors { return {linalg::cholesky(definite(a[0]), true)}; },
       .dtypes = kWide});
  c.samples.push_back(past_shared_memory(
      {240, 240}, [](const Args& a) -> Tensors { return {linalg::cholesky(definite(a[0]))}; }));
  c.bad.push_back(bad<LinAlgError>(
      "linalg.cholesky: (batch element 1) the matrix is not positive "
      "definite (its leading minor of order 2 is not positive)",
      [](Device d) { linalg::cholesky(tensor<float>({4, 2, 2, 3, 1, 2, 2, 1}, {2, 2, 2}, d)); }));
  c.bad.push_back(bad<LinAlgError>(
      "linalg.cholesky: the matrix is not positive definite (its leading minor of order 2",
      [](Device d) { linalg::cholesky(tensor<float>({1, NAN, NAN, 1}, {2, 2}, d)); }));
  c.bad.push_back(refused_dtype("cholesky", [](const Tensor& t) { linalg::cholesky(t); }));
  return c;
}

OpCase lu_factor_case() {
  const auto call = [](const Args& a) -> Tensors {
    const auto f = linalg::lu_factor_ex(a[0]);
    return {f.lu, f.pivots, f.info};
  };
  OpCase c{.op = "lu_factor", .samples = matrices(call), .tolerance = kFactors};
  for (const auto& [rows, columns] : {std::pair{2, 0}, std::pair{0, 3}})
    for (Sample& s : matrices(call, rows, columns)) {
      s.name += rows > 0 ? ", tall" : ", wide";
      c.samples.push_back(std::move(s));
    }
  c.bad = {
      bad<LinAlgError>("linalg.lu_factor: U[2,2] is zero",
                       [](Device d) { linalg::lu_factor(ones({2, 2}, {.device = d})); }),
      bad<Unsupported>("without pivoting",
                       [](Device d) { linalg::lu_factor(ones({2, 2}, {.device = d}), false); }),
      bad<ShapeError>("linalg.lu_factor: expected a matrix",
                      [](Device d) { linalg::lu_factor(ones({2}, {.device = d})); })};
  return c;
}

OpCase lu_permutation_case() {
  const auto sample = [](const char* name, const Shape& shape, std::vector<double> pivots,
                         std::vector<double> p, const Shape& result) {
    return Sample{
        .name = name,
        .in = {x(shape).of(std::move(pivots)).constant().as<DType::i32>()},
        .call = [](const Args& a) -> Tensors {
          return {linalg::lu_unpack(zeros({3, 3}, {DType::f32, a.device}), a[0], false).p};
        },
        .oracle = [=](const HostArgs&) { return std::vector{HostArray{result, p}}; },
        .dtypes = {DType::i32},
        .gradient = false,
        .exact = true};
  };
  return {.op = "lu_permutation",
          .samples = {sample("a turn", {3}, {3, 3, 3}, {0, 1, 0, 0, 0, 1, 1, 0, 0}, {3, 3}),
                      sample("fewer columns", {1}, {2}, {0, 1, 0, 1, 0, 0, 0, 0, 1}, {3, 3}),
                      sample("no matrices", {0, 3}, {}, {}, {0, 3, 3})},
          .bad = {bad<IndexError>("lu_permutation: a pivot must be in [1, 3], got 4",
                                  [](Device d) {
                                    linalg::lu_unpack(zeros({3, 3}, {.device = d}),
                                                      full({3}, 4, {DType::i32, d}));
                                  }),
                  bad<DTypeError>("lu_permutation: pivots must be int32",
                                  [](Device d) {
                                    linalg::lu_unpack(zeros({3, 3}, {.device = d}),
                                                      full({3}, 1, {DType::i64, d}));
                                  })},
          .no_single = "a sample of one pivot has a matrix of three rows"};
}

OpCase solve_case() {
  const auto call = [](const Args& a) -> Tensors {
    const auto f = linalg::solve_ex(regular(a[0]), a[1]);
    return {f.result, f.info};
  };
  const auto sample = [&](const char* name, const Shape& a, const Shape& b) {
    return Sample{.name = name, .in = {x(a), x(b)}, .call = call, .dtypes = kWide};
  };
  Sample right = sample("from the right", {3, 3}, {2, 3});
  right.call = [](const Args& a) -> Tensors { return {linalg::solve(regular(a[0]), a[1], false)}; };
  Sample large = sample("past the lanes", {40, 40}, {40, 2});
  large.gradient = false;
  const Sample largest = past_shared_memory(
      {240, 240}, [](const Args& a) -> Tensors { return {linalg::inv(a[0] + 40.0 * one(a[0]))}; });
  return {.op = "solve",
          .samples = and_complex(
              {sample("a vector", {4, 4}, {4}), sample("two sides", {4, 4}, {4, 2}),
               sample("a batch", {2, 9, 3, 3}, {2, 9, 3, 2}), sample("vectors", {9, 2, 2}, {9, 2}),
               sample("batches broadcast", {3, 1, 2, 2}, {2, 2, 1}), right, large,
               sample("one element", {1, 1}, {1, 1}), sample("empty", {0, 0}, {0, 2}),
               sample("no matrices", {0, 2, 2}, {0, 2, 1}), sample("no sides", {2, 2}, {2, 0}),
               largest}),
          .bad = {bad<LinAlgError>("linalg.solve: the matrix is singular",
                                   [](Device d) {
                                     const Tensor m = ones({2, 2}, {.device = d});
                                     linalg::solve(m, m);
                                   }),
                  bad<ShapeError>("linalg.solve: A (…, n, n) and B (…, n, k) do not fit",
                                  [](Device d) {
                                    linalg::solve(ones({2, 2}, {.device = d}),
                                                  ones({3, 1}, {.device = d}));
                                  }),
                  bad<DTypeError>("one dtype",
                                  [](Device d) {
                                    linalg::solve(ones({2, 2}, {.device = d}),
                                                  ones({2, 1}, {DType::f64, d}));
                                  })},
          .tolerance = kFactors};
}

OpCase solve_triangular_case() {
  std::vector<Sample> samples;
  for (int bits = 0; bits < 16; ++bits) {
    const linalg::TriangularParams p{.upper = (bits & 1) != 0,
                                     .left = (bits & 2) != 0,
                                     .unit = (bits & 4) != 0,
                                     .adjoint = (bits & 8) != 0};
    samples.push_back({.name = fmt::format("upper {}, left {}, unit {}, adjoint {}", p.upper,
                                           p.left, p.unit, p.adjoint),
                       .in = {x({3, 3}).in(-0.7, 0.7), x(p.left ? Shape{3, 2} : Shape{2, 3})},
                       .call = [p](const Args& a) -> Tensors {
                         return {linalg::solve_triangle(a[0] + 2.0 * one(a[0]), a[1], p)};
                       },
                       .dtypes = kWide});
  }
  const auto sample = [](const char* name, const Shape& a, const Shape& b) {
    return Sample{.name = name,
                  .in = {x(a).in(-0.5, 0.5), x(b)},
                  .call = [](const Args& in) -> Tensors {
                    return {linalg::solve_triangular(in[0] + 2.0 * one(in[0]), in[1], false)};
                  },
                  .dtypes = kWide};
  };
  for (Sample& s : std::vector{
           sample("a batch", {2, 9, 3, 3}, {2, 9, 3, 2}),
           sample("batches broadcast", {3, 1, 2, 2}, {2, 2, 1}),
           sample("past the lanes", {40, 40}, {40, 2}), sample("one element", {1, 1}, {1, 1}),
           sample("empty", {0, 0}, {0, 2}), sample("no matrices", {0, 2, 2}, {0, 2, 1})})
    samples.push_back(s);
  return {.op = "solve_triangular",
          .samples = and_complex(samples),
          .bad = {bad<ShapeError>("linalg.solve_triangular: A [2, 2] and B [3, 1] do not fit: the "
                                  "rows of B must be as many as A's",
                                  [](Device d) {
                                    linalg::solve_triangular(ones({2, 2}, {.device = d}),
                                                             ones({3, 1}, {.device = d}), true);
                                  })},
          .tolerance = kFactors};
}

OpCase qr_case() {
  const auto call = [](linalg::QrMode mode) {
    return [mode](const Args& a) -> Tensors {
      const auto f = linalg::qr(a[0] + 4.0 * one(a[0]), mode);
      return {f.q, f.r};
    };
  };
  using linalg::QrMode;
  OpCase c{.op = "qr", .samples = matrices(call(QrMode::reduced)), .tolerance = kFactors};
  for (const QrMode mode : {QrMode::reduced, QrMode::complete})
    for (const auto& [rows, columns] : {std::pair{2, 0}, std::pair{0, 3}})
      for (Sample& s : matrices(call(mode), rows, columns)) {
        s.name += fmt::format("{}{}", rows > 0 ? ", tall" : ", wide",
                              mode == QrMode::complete ? ", complete" : "");
        if (mode == QrMode::complete && rows > 0) s.gradient = false;
        c.samples.push_back(std::move(s));
      }
  c.bad = {bad<ShapeError>("linalg.qr: expected a matrix",
                           [](Device d) { linalg::qr(ones({2}, {.device = d})); }),
           bad<Unsupported>("has no gradient: the columns of Q past those of the matrix are not "
                            "determined",
                            [](Device d) {
                              const Tensor a = ones({3, 2}, {.device = d});
                              a.set_requires_grad();
                              sum(linalg::qr(a, QrMode::complete).q).backward();
                            })};
  return c;
}

OpCase svd_case() {
  // The values, the factor of the polar decomposition, and the vectors without signs.
  const auto call = [](bool full) {
    return [full](const Args& a) -> Tensors {
      const Tensor m = spread_out(a[0]);
      const auto f = linalg::svd(m, full);
      const int64_t k = f.s.size(f.s.rank() - 1);
      const Tensor u = narrow(f.u, -1, 0, k);
      const Tensor vh = narrow(f.vh, -2, 0, k);
      return {f.s, matmul(u, vh), sizes(u), sizes(vh), linalg::svdvals(m)};
    };
  };
  OpCase c{.op = "svd", .samples = matrices(call(false)), .tolerance = kFactors};
  for (const bool full : {false, true})
    for (const auto& [rows, columns] : {std::pair{2, 0}, std::pair{0, 3}})
      for (Sample& s : matrices(call(full), rows, columns)) {
        s.name += fmt::format("{}{}", rows > 0 ? ", tall" : ", wide", full ? ", full" : "");
        c.samples.push_back(std::move(s));
      }
  // Values that are equal or zero have no vectors of their own.
  const auto values = [](const char* name, std::vector<double> given) {
    return Sample{.name = name,
                  .in = {x({8, 3, 2}).of(std::move(given))},
                  .call = [](const Args& a) -> Tensors {
                    const auto f = linalg::svd(a[0], false);
                    const Tensor again = matmul(f.u * unsqueeze(f.s, -2), f.vh);
                    return {f.s, again, matmul(mt(f.u), f.u), matmul(f.vh, mt(f.vh))};
                  },
                  .dtypes = kWide,
                  .gradient = false};
  };
  std::vector<double> zero(48);
  std::vector<double> equal(48);
  for (size_t i = 0; i < 48; i += 6) equal[i] = equal[i + 3] = 2;
  c.samples.push_back(past_shared_memory(
      {180, 170}, [](const Args& a) -> Tensors { return {linalg::svdvals(a[0])}; }));
  c.samples.push_back(values("zero", zero));
  c.samples.push_back(values("equal values", equal));
  c.bad = {bad<ShapeError>("linalg.svd: expected a matrix",
                           [](Device d) { linalg::svd(ones({2}, {.device = d})); }),
           bad<LinAlgError>("linalg.svd: the input holds NaN or infinity", [](Device d) {
             linalg::svd(full({2, 2}, std::numeric_limits<double>::infinity(), {DType::f32, d}));
           })};
  return c;
}

OpCase eigh_case() {
  const auto call = [](const Args& a) -> Tensors {
    const Tensor m = spread_out(a[0] + mt(a[0]));
    const auto e = linalg::eigh(m);
    return {e.eigenvalues, sizes(e.eigenvectors), linalg::eigvalsh(m, linalg::Uplo::upper)};
  };
  OpCase c{.op = "eigh",
           .samples = matrices(call),
           .bad = not_square("linalg.eigh", [](const Tensor& t) { linalg::eigh(t); }),
           .tolerance = kFactors};
  c.samples.push_back({.name = "equal values",
                       .in = {x({8, 3, 3}).of(std::vector<double>(72, 1))},
                       .call = [](const Args& a) -> Tensors {
                         const auto e = linalg::eigh(a[0]);
                         const Tensor& v = e.eigenvectors;
                         return {e.eigenvalues, matmul(v * unsqueeze(e.eigenvalues, -2), mt(v)),
                                 matmul(mt(v), v)};
                       },
                       .dtypes = kWide,
                       .gradient = false});
  c.bad.push_back(bad<LinAlgError>("linalg.eigh: the input holds NaN or infinity", [](Device d) {
    linalg::eigvalsh(full({2, 2}, std::nan(""), {DType::f32, d}));
  }));
  return c;
}

OpCase eig_case() {
  // In the order of their real parts, which are apart.
  const auto call = [](const Args& a) -> Tensors {
    const Tensor m = spread_out(a[0]);
    const auto e = linalg::eig(m);
    const auto ordered = [](const Tensor& values, const Tensor& of) {
      const Tensor order = argsort(real(values).detach());
      return gather(of, of.rank() - 1,
                    of.rank() == values.rank() ? order : expand(unsqueeze(order, -2), of.shape()));
    };
    const Tensor values = linalg::eigvals(m);
    return {shown(ordered(e.eigenvalues, e.eigenvalues)),
            sizes(ordered(e.eigenvalues, e.eigenvectors)), shown(ordered(values, values))};
  };
  OpCase c{.op = "eig",
           .samples = matrices(call),
           .bad = not_square("linalg.eig", [](const Tensor& t) { linalg::eig(t); }),
           .tolerance = kFactors};
  // A turn by a quarter: the eigenvalues i and -i.
  c.samples.push_back({.name = "a turn",
                       .in = {x({2, 2}).of({0, -1, 1, 0})},
                       .call = [](const Args& a) -> Tensors {
                         const auto e = linalg::eig(a[0]);
                         return {abs(imag(e.eigenvalues)), real(e.eigenvalues) + 1.0,
                                 sizes(e.eigenvectors)};
                       },
                       .oracle =
                           [](const HostArgs&) {
                             return std::vector{HostArray{{2}, {1, 1}}, HostArray{{2}, {1, 1}},
                                                HostArray{{2, 2}, {0.5, 0.5, 0.5, 0.5}}};
                           },
                       .dtypes = kWide});
  c.bad.push_back(bad<LinAlgError>("linalg.eig: the input holds NaN or infinity", [](Device d) {
    linalg::eigvals(full({2, 2}, std::nan(""), {DType::f32, d}));
  }));
  return c;
}

OpCase cofactor_case() {
  const auto call = [](const Args& a) { return call_op("cofactor", NoParams{}, {a[0]}); };
  OpCase c{.op = "cofactor",
           .samples = matrices(
               [call](const Args& a) { return call({{regular(a[0])}, a.dtype, a.device}); }),
           .tolerance = Tolerances{{1e-12, 1e-3, 0, 0}, {1e-10, 5e-3, 0, 0}}};
  for (Sample& s : c.samples)
    if (s.name == "past the lanes") {
      s.in[0].shape = {6, 6};
    } else if (s.name == "past the lanes, complex") {
      s.in[0].shape = {6, 6, 2};
    } else if (s.name.starts_with("one element")) {
      s.gradient = false;  // which is 0 but for rounding
    }
  c.samples.push_back(
      {.name = "singular",
       .in = {x({2, 2}).of({1, 2, 2, 4})},
       .call = call,
       .oracle = [](const HostArgs&) { return std::vector{HostArray{{2, 2}, {4, -2, -2, 1}}}; },
       .dtypes = kWide,
       .gradient = false});
  c.bad = not_square("linalg.det", [](const Tensor& t) { linalg::det(t); });
  return c;
}

OpCase matrix_exp_case() {
  OpCase c{.op = "matrix_exp",
           .samples = matrices([](const Args& a) -> Tensors { return {linalg::matrix_exp(a[0])}; }),
           .bad = not_square("linalg.matrix_exp", [](const Tensor& t) { linalg::matrix_exp(t); }),
           .tolerance = Tolerances{{1e-12, 1e-4, 0, 0}, {1e-11, 1e-3, 0, 0}}};
  for (Sample& s : c.samples) s.in[0].low = -1, s.in[0].high = 1;
  c.samples.push_back({.name = "squared often",
                       .in = {x({3, 3}).of({0, 9, 0, -9, 0, 0, 0, 0, 1})},
                       .call = [](const Args& a) -> Tensors { return {linalg::matrix_exp(a[0])}; },
                       .oracle =
                           [](const HostArgs&) {
                             const double c9 = std::cos(9);
                             const double s9 = std::sin(9);
                             return std::vector{
                                 HostArray{{3, 3}, {c9, s9, 0, -s9, c9, 0, 0, 0, std::exp(1)}}};
                           },
                       .dtypes = kWide});
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{cholesky_case(),
                             lu_factor_case(),
                             lu_permutation_case(),
                             solve_case(),
                             solve_triangular_case(),
                             qr_case(),
                             svd_case(),
                             eigh_case(),
                             eig_case(),
                             cofactor_case(),
                             matrix_exp_case()};
});

}  // namespace
}  // namespace mica::cases

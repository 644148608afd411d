// Losses, moments, differences and writes at indices that are made of other ops, and functions that
// draw random numbers where these cannot matter.
#include "mica/op/function.h"
#include "tests/op_cases/composites.h"

namespace mica::cases {
namespace {

using LossCall = Tensor (*)(const Tensor&, const Tensor&);

Sample element_loss(const char* name, const Shape& shape, LossCall call, const Double2& f,
                    Input target) {
  target.shape = shape;
  return composite_sample(
      name, {x(shape), std::move(target).constant()},
      [call](const Args& a) { return call(a[0], a[1]); }, binary_oracle(f));
}

OpCase poisson_case() {
  const LossCall call = [](const Tensor& a, const Tensor& b) {
    return poisson_nll_loss(a, b, {.full = true, .reduction = Reduction::none});
  };
  const auto f = [](double v, double t) {
    const double stirling =
        t > 1 ? t * std::log(t) - t + 0.5 * std::log(2 * std::acos(-1.0) * t) : 0;
    return std::exp(v) - t * v + stirling;
  };
  const Input counts = x({1}).in(0, 5);
  return {.op = "poisson_nll_loss",
          .samples = {element_loss("matrix", {3, 4}, call, f, counts),
                      element_loss("one element", {1}, call, f, counts),
                      element_loss("empty", {0, 3}, call, f, counts)},
          .bad = {bad<ShapeError>("poisson_nll_loss: input and target must have one shape",
                                  [](Device d) {
                                    poisson_nll_loss(zeros({2}, {.device = d}),
                                                     zeros({3}, {.device = d}));
                                  })},
          .tolerance = kSeveralRoundings};
}

OpCase gaussian_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape), x(shape), x(shape).in(0.5, 2)},
        [](const Args& a) {
          return gaussian_nll_loss(a[0], a[1], a[2], {.reduction = Reduction::none});
        },
        [](const HostArgs& in) {
          HostArray out = in[0];
          for (size_t i = 0; i < out.values.size(); ++i) {
            const double d = in[0].values[i] - in[1].values[i];
            out.values[i] = 0.5 * (std::log(in[2].values[i]) + d * d / in[2].values[i]);
          }
          return std::vector{out};
        });
  };
  return {
      .op = "gaussian_nll_loss",
      .samples = {sample("matrix", {3, 4}), sample("one element", {1}), sample("empty", {0, 3})},
      .bad = {bad<Error>("gaussian_nll_loss: eps must be positive, got 0",
                         [](Device d) {
                           const Tensor one = ones({1}, {.device = d});
                           gaussian_nll_loss(one, one, one, {.eps = 0});
                         })},
      .tolerance = kSeveralRoundings};
}

OpCase multi_margin_case() {
  const auto sample = [](const char* name, int64_t rows, std::vector<double> classes) {
    return composite_sample(
        name, {x({rows, 3}), x({rows}).of(std::move(classes)).as<DType::i64>()},
        [](const Args& a) {
          return multi_margin_loss(a[0], a[1], {.margin = 5, .reduction = Reduction::none});
        },
        [](const HostArgs& in) {
          HostArray out{{in[0].shape[0]}, {}};
          for (int64_t i = 0; i < out.shape[0]; ++i) {
            const auto target = static_cast<int64_t>(at(in[1], {i}));
            double sum = 0;
            for (int64_t j = 0; j < 3; ++j)
              if (j != target) sum += std::max(0.0, 5 - at(in[0], {i, target}) + at(in[0], {i, j}));
            out.values.push_back(sum / 3);
          }
          return std::vector{out};
        });
  };
  return {.op = "multi_margin_loss",
          .samples = {sample("rows", 4, {0, 2, 1, 1}), sample("one element", 1, {2}),
                      sample("empty", 0, {})},
          .bad = {bad<Error>("multi_margin_loss: p must be 1 or 2, got 3",
                             [](Device d) {
                               multi_margin_loss(zeros({2, 3}, {.device = d}),
                                                 zeros({2}, {DType::i64, d}), {.p = 3});
                             })},
          .second_order = true,
          .tolerance = kSeveralRoundings};
}

OpCase multilabel_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape), x(shape).in(0, 1).constant()},
        [](const Args& a) {
          return multilabel_soft_margin_loss(a[0], a[1], {.reduction = Reduction::none});
        },
        [](const HostArgs& in) {
          HostArray out{{in[0].shape[0]}, {}};
          const int64_t n = in[0].shape[1];
          for (int64_t i = 0; i < out.shape[0]; ++i) {
            double sum = 0;
            for (int64_t j = 0; j < n; ++j) {
              const double v = at(in[0], {i, j});
              sum += std::log1p(std::exp(-v)) + (1 - at(in[1], {i, j})) * v;
            }
            out.values.push_back(sum / static_cast<double>(n));
          }
          return std::vector{out};
        });
  };
  return {
      .op = "multilabel_soft_margin_loss",
      .samples = {sample("rows", {3, 4}), sample("one element", {1, 1}), sample("empty", {0, 3})},
      .bad = {bad<ShapeError>("multilabel_soft_margin_loss: input must be (…, C), got []",
                              [](Device d) {
                                const Tensor one = zeros({}, {.device = d});
                                multilabel_soft_margin_loss(one, one);
                              })},
      .tolerance = kSeveralRoundings};
}

OpCase diff_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    return composite_sample(
        name, {x(shape)}, [](const Args& a) { return diff(a[0]); },
        [](const HostArgs& in) {
          const int64_t n = std::max<int64_t>(in[0].shape[1] - 1, 0);
          HostArray out{{in[0].shape[0], n}, {}};
          for (int64_t i = 0; i < out.shape[0]; ++i)
            for (int64_t j = 0; j < n; ++j)
              out.values.push_back(at(in[0], {i, j + 1}) - at(in[0], {i, j}));
          return std::vector{out};
        });
  };
  return {
      .op = "diff",
      .samples = {sample("rows", {3, 4}), sample("one element", {1, 1}), sample("empty", {0, 3})},
      .bad = {bad<ShapeError>("diff: expected at least one axis",
                              [](Device d) { diff(zeros({}, {.device = d})); })},
      .tolerance = kSeveralRoundings};
}

OpCase index_fill_case() {
  const auto sample = [](const char* name, const Shape& shape, std::vector<double> index) {
    const auto n = static_cast<int64_t>(index.size());
    return composite_sample(
        name, {x(shape), x({n}).of(index).as<DType::i64>()},
        [](const Args& a) { return index_fill(a[0], 0, a[1], 2.5); },
        [index](const HostArgs& in) {
          HostArray out = in[0];
          const int64_t row = out.shape[1];
          for (const double i : index)
            for (int64_t j = 0; j < row; ++j)
              out.values[static_cast<size_t>(static_cast<int64_t>(i) * row + j)] = 2.5;
          return std::vector{out};
        });
  };
  return {.op = "index_fill",
          .samples = {sample("rows", {4, 3}, {0, 2}), sample("one element", {1, 1}, {0}),
                      sample("empty", {2, 0}, {1})},
          .bad = {bad<IndexError>("index_fill: axis must be in [-1, 1), got 3", [](Device d) {
            index_fill(zeros({2}, {.device = d}), 3, zeros({1}, {DType::i64, d}), 1);
          })}};
}

OpCase masked_scatter_case() {
  const auto sample = [](const char* name, std::vector<double> mask, int64_t given) {
    const auto n = static_cast<int64_t>(mask.size());
    Sample s = composite_sample(
        name, {x({n}), x({n}).of(mask).as<DType::boolean>(), x({given})},
        [](const Args& a) { return masked_scatter(a[0], a[1], a[2]); },
        [mask](const HostArgs& in) {
          HostArray out = in[0];
          size_t next = 0;
          for (size_t i = 0; i < mask.size(); ++i)
            if (mask[i] != 0) out.values[i] = in[2].values[next++];
          return std::vector{out};
        });
    s.compiled = false;  // how many are taken depends on the mask
    return s;
  };
  return {.op = "masked_scatter",
          .samples = {sample("some", {1, 0, 1, 1, 0}, 4), sample("one element", {1}, 1),
                      sample("empty", {}, 0)},
          .bad = {bad<Error>("undefined", [](Device d) {
            masked_scatter(Tensor(), ones({2}, {DType::boolean, d}), zeros({2}, {.device = d}));
          })}};
}

/// A function that passes x on where nothing is dropped.
OpCase channel_dropout_case(const char* op, Tensor (*call)(const Tensor&, double, bool),
                            const Shape& shape) {
  const auto sample = [=](const char* name, const Shape& s, double p, bool training) {
    return composite_sample(
        name, {x(s)}, [=](const Args& a) { return call(a[0], p, training); },
        [](const HostArgs& in) { return std::vector{in[0]}; });
  };
  Shape empty = shape;
  empty[0] = 0;
  return {.op = op,
          .samples = {sample("evaluation", shape, 0.5, false), sample("p = 0", shape, 0, true),
                      sample("one element", Shape::filled(shape.rank(), 1), 0.5, false),
                      sample("empty", empty, 0.5, true)},
          .bad = {bad<ShapeError>(std::string(op) + ": expected rank", [call](Device d) {
            call(zeros({2}, {.device = d}), 0.5, true);
          })}};
}

OpCase gumbel_softmax_case() {
  const auto sample = [](const char* name, const Shape& shape) {
    Sample s = composite_sample(
        name, {x(shape)}, [](const Args& a) { return gumbel_softmax(a[0], {.axis = 1}); },
        [](const HostArgs& in) {
          HostArray out = in[0];
          for (double& v : out.values) v = 1;  // the only class there is
          return std::vector{out};
        },
        false);
    return s;
  };
  return {.op = "gumbel_softmax",
          .samples = {sample("one class", {3, 1}), sample("one element", {1, 1}),
                      sample("empty", {0, 1})},
          .bad = {bad<Error>("gumbel_softmax: tau must be positive, got 0", [](Device d) {
            gumbel_softmax(zeros({1}, {.device = d}), {.tau = 0});
          })}};
}

std::vector<OpCase> random_cases() {
  const auto certain = [](const char* name, std::vector<double> p) {
    const auto n = static_cast<int64_t>(p.size());
    return composite_sample(
        name, {x({n}).of(std::move(p))}, [](const Args& a) { return bernoulli(a[0]); },
        [](const HostArgs& in) { return std::vector{in[0]}; }, false);
  };
  Sample one_weight = composite_sample(
      "one weight", {x({2, 3}).of({0, 2, 0, 0.5, 0, 0})},
      [](const Args& a) { return multinomial(a[0], 1); },
      [](const HostArgs&) { return std::vector{HostArray{{2, 1}, {1, 0}}}; }, false);
  one_weight.compiled = false;  // it looks at the weights
  Sample single = composite_sample(
      "one element", {x({1}).of({1})}, [](const Args& a) { return multinomial(a[0], 1); },
      [](const HostArgs&) { return std::vector{HostArray{{1}, {0}}}; }, false);
  single.compiled = false;
  const auto permutation = [](const char* name, int64_t n) {
    return Sample{.name = name,
                  .in = {},
                  // On the host: a copy to a device cannot be recorded.
                  .call = [n](const Args&) -> Tensors { return {sort(randperm(n)).values}; },
                  .oracle =
                      [n](const HostArgs&) {
                        HostArray out{{n}, {}};
                        for (int64_t i = 0; i < n; ++i)
                          out.values.push_back(static_cast<double>(i));
                        return std::vector{out};
                      },
                  .dtypes = {DType::f32},
                  .gradient = false,
                  .compiled = false};
  };
  return {
      {.op = "bernoulli",
       .samples = {certain("certain", {0, 1, 1, 0}), certain("one element", {1}),
                   certain("empty", {})},
       .bad = {bad<DTypeError>("bernoulli: expected a floating dtype, got i64",
                               [](Device d) { bernoulli(zeros({2}, {DType::i64, d})); })}},
      {.op = "multinomial",
       .samples = {one_weight, single},
       .bad = {bad<ShapeError>("multinomial: expected weights",
                               [](Device d) { multinomial(ones({2, 2, 2}, {.device = d}), 1); })},
       .no_empty = "weights must be there to draw from"},
      {.op = "randperm",
       .samples = {permutation("all numbers", 37), permutation("none", 0)},
       .bad = {bad<ShapeError>("", [](Device) { randperm(-1); })},
       .no_empty = "it has no inputs",
       .no_single = "it has no inputs"}};
}

/// Called by its name, as a foreign language would.
OpCase moments_case(const char* op, double (*of_variance)(double)) {
  const auto call_by_name = [op](const Tensor& t) {
    const Argument given[] = {t, Dims{1}};
    const NamedArgument named[] = {{"correction", 0.0}};
    return *call(*find_function(op), given, named).get<Tensors>();
  };
  const auto sample = [=](const char* name, const Shape& shape, bool gradient) {
    Sample s{.name = name,
             .in = {x(shape)},
             .call = [=](const Args& a) { return call_by_name(a[0]); },
             .oracle =
                 [=](const HostArgs& in) {
                   const int64_t n = in[0].shape[1];
                   HostArray spread{{in[0].shape[0]}, {}};
                   HostArray middle = spread;
                   for (int64_t i = 0; i < in[0].shape[0]; ++i) {
                     double sum = 0;
                     double squares = 0;
                     for (int64_t j = 0; j < n; ++j) sum += at(in[0], {i, j});
                     const double mean = sum / static_cast<double>(n);
                     for (int64_t j = 0; j < n; ++j)
                       squares += std::pow(at(in[0], {i, j}) - mean, 2);
                     spread.values.push_back(of_variance(squares / static_cast<double>(n)));
                     middle.values.push_back(mean);
                   }
                   return std::vector{spread, middle};
                 },
             .dtypes = kWide,
             .gradient = gradient};
    return s;
  };
  return {.op = op,
          .samples = {sample("rows", {3, 4}, true), sample("one element", {1, 1}, false),
                      sample("empty", {0, 3}, true)},
          .bad = {bad<Unsupported>(std::string(op) + ": no signature takes these 0 arguments",
                                   [op](Device) { call(*find_function(op), {}); })},
          .tolerance = Tolerances{{1e-12, 2e-6, 4e-3, 3.2e-2}, {1e-12, 1e-5, 6e-3, 4.8e-2}}};
}

const Room kRoom([] {
  std::vector<OpCase> cases = random_cases();
  cases.push_back(poisson_case());
  cases.push_back(gaussian_case());
  cases.push_back(multi_margin_case());
  cases.push_back(multilabel_case());
  cases.push_back(diff_case());
  cases.push_back(index_fill_case());
  cases.push_back(masked_scatter_case());
  cases.push_back(channel_dropout_case("dropout1d", dropout1d, {2, 3, 4}));
  cases.push_back(channel_dropout_case("dropout2d", dropout2d, {2, 3, 4, 2}));
  cases.push_back(channel_dropout_case("dropout3d", dropout3d, {2, 3, 2, 2, 2}));
  cases.push_back(gumbel_softmax_case());
  cases.push_back(moments_case("var_mean", [](double v) { return v; }));
  cases.push_back(moments_case("std_mean", [](double v) { return std::sqrt(v); }));
  return cases;
});

}  // namespace
}  // namespace mica::cases

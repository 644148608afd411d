#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};
const char* name_of(Reduction r) {
  return r == Reduction::mean ? "mean" : r == Reduction::sum ? "sum" : "none";
}

std::vector<HostArray> reduced(const HostArray& losses, Reduction r) {
  if (r == Reduction::none) return {losses};
  const double total = std::accumulate(losses.values.begin(), losses.values.end(), 0.0);
  const auto n = static_cast<double>(losses.values.size());
  return {HostArray{{}, {r == Reduction::mean ? total / n : total}}};
}

/// f(i) for every element of an array like `like`, reduced.
template <class F>
std::vector<HostArray> each(const HostArray& like, Reduction r, F&& f) {
  HostArray losses{like.shape, {}};
  for (size_t i = 0; i < like.values.size(); ++i) losses.values.push_back(f(i));
  return reduced(losses, r);
}

/// A loss of input and target, element by element.
struct Loss {
  const char* op;
  std::function<Tensor(const Tensor&, const Tensor&, Reduction)> call;
  double (*value)(double input, double target);
  Input (*input)(const Shape&) = [](const Shape& s) { return x(s); };
  Input (*target)(const Shape&) = [](const Shape& s) { return x(s); };
};

Sample loss_sample(const Loss& loss, const char* name, const Shape& shape, Reduction r) {
  return {.name = std::string(name) + ", " + name_of(r),
          .in = {loss.input(shape), loss.target(shape)},
          .call = [=](const Args& a) -> Tensors { return {loss.call(a[0], a[1], r)}; },
          .oracle =
              [=](const HostArgs& in) {
                return each(in[0], r,
                            [&](size_t i) { return loss.value(in[0].values[i], in[1].values[i]); });
              }};
}

OpCase loss_case(const Loss& loss) {
  OpCase c{.op = loss.op, .samples = {}};
  for (const Reduction r : kReductions) c.samples.push_back(loss_sample(loss, "matrix", {4, 5}, r));
  c.samples.push_back(loss_sample(loss, "images", {2, 3, 2, 2}, Reduction::none));
  c.samples.push_back(loss_sample(loss, "one element", {1}, Reduction::mean));
  c.samples.push_back(loss_sample(loss, "scalars", {}, Reduction::mean));
  c.samples.push_back(loss_sample(loss, "empty", {0, 3}, Reduction::sum));
  c.samples.push_back(loss_sample(loss, "empty", {0, 3}, Reduction::none));
  const std::string op = loss.op;
  c.bad = {bad<ShapeError>(op + ": input and target must have one shape, got [4, 1] and [4]",
                           [=](Device d) {
                             loss.call(zeros({4, 1}, {.device = d}), zeros({4}, {.device = d}),
                                       Reduction::mean);
                           }),
           bad<DTypeError>(op + ": expected a floating dtype, got i64", [=](Device d) {
             loss.call(zeros({4}, {DType::i64, d}), zeros({4}, {.device = d}), Reduction::mean);
           })};
  return c;
}

// Differences of input and target stay off the kinks at 0 and at ±0.7.
Input inputs_off_kinks(const Shape& s) {
  std::vector<double> values;
  const std::vector<double> some = {1.25, -1, 0.5, -0.25, 2, -1.5};
  for (int64_t i = 0; i < numel(s); ++i)
    values.push_back(some[static_cast<size_t>(i) % some.size()]);
  return x(s).of(values);
}
Input small_targets(const Shape& s) { return x(s).in(-0.1, 0.1); }
Input probabilities(const Shape& s) { return x(s).in(0.05, 0.95); }
Input signs(const Shape& s) {
  std::vector<double> values;
  for (int64_t i = 0; i < numel(s); ++i) values.push_back(i % 3 == 0 ? -1 : 1);
  return x(s).of(values).constant();
}

double bce(double p, double t) {
  return -t * std::max(std::log(p), -100.0) - (1 - t) * std::max(std::log1p(-p), -100.0);
}
double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))); }
double bce_with_logits(double z, double t) { return softplus(z) - z * t; }

OpCase smooth_l1_case() {
  OpCase c = loss_case({"smooth_l1_loss",
                        [](const Tensor& a, const Tensor& b, Reduction r) {
                          return smooth_l1_loss(a, b, {.beta = 0.7, .reduction = r});
                        },
                        [](double a, double b) {
                          const double d = std::abs(a - b);
                          return d < 0.7 ? d * d / 1.4 : d - 0.35;
                        },
                        inputs_off_kinks, small_targets});
  c.samples.push_back(loss_sample(
      {"smooth_l1_loss",
       [](const Tensor& a, const Tensor& b, Reduction r) {
         return smooth_l1_loss(a, b, {.beta = 0, .reduction = r});
       },
       [](double a, double b) { return std::abs(a - b); }, inputs_off_kinks, small_targets},
      "beta of 0", {7}, Reduction::mean));
  c.bad.push_back(bad<Error>("smooth_l1_loss: beta must not be negative, got -1", [](Device d) {
    smooth_l1_loss(zeros({3}, {.device = d}), zeros({3}, {.device = d}), {.beta = -1});
  }));
  return c;
}

OpCase huber_case() {
  OpCase c = loss_case({"huber_loss",
                        [](const Tensor& a, const Tensor& b, Reduction r) {
                          return huber_loss(a, b, {.delta = 0.7, .reduction = r});
                        },
                        [](double a, double b) {
                          const double d = std::abs(a - b);
                          return d <= 0.7 ? d * d / 2 : 0.7 * (d - 0.35);
                        },
                        inputs_off_kinks, small_targets});
  c.bad.push_back(bad<Error>("huber_loss: delta must be positive, got 0", [](Device d) {
    huber_loss(zeros({3}, {.device = d}), zeros({3}, {.device = d}), {.delta = 0});
  }));
  return c;
}

OpCase binary_cross_entropy_case() {
  OpCase c = loss_case({"binary_cross_entropy",
                        [](const Tensor& a, const Tensor& b, Reduction r) {
                          return binary_cross_entropy(a, b, {.reduction = r});
                        },
                        bce, probabilities, probabilities});
  for (const Reduction r : kReductions)
    c.samples.push_back(
        {.name = std::string("weights of rows, ") + name_of(r),
         .in = {probabilities({4, 3}), probabilities({4, 3}), x({4, 1}).in(0.5, 2).constant()},
         .call = [r](const Args& a) -> Tensors {
           return {binary_cross_entropy(a[0], a[1], {.weight = a[2], .reduction = r})};
         },
         .oracle =
             [r](const HostArgs& in) {
               return each(in[0], r, [&](size_t i) {
                 return bce(in[0].values[i], in[1].values[i]) * in[2].values[i / 3];
               });
             }});
  // Logarithms of 0 are -100, and gradients there are finite.
  c.samples.push_back({.name = "certain",
                       .in = {x({6}).of({0, 0, 1, 1, 0, 1}), x({6}).of({0, 1, 0, 1, 0.5, 0.25})},
                       .call = [](const Args& a) -> Tensors {
                         return {binary_cross_entropy(a[0], a[1], {.reduction = Reduction::none})};
                       },
                       .oracle =
                           [](const HostArgs& in) {
                             return each(in[0], Reduction::none, [&](size_t i) {
                               return bce(in[0].values[i], in[1].values[i]);
                             });
                           },
                       .gradient = false});
  c.samples.push_back(
      {.name = "gradient of the certain",
       .in = {x({4}).of({0, 0, 1, 1}).constant(), x({4}).of({0, 1, 0, 1}).constant()},
       .call = [](const Args& a) -> Tensors {
         const Tensor p = a[0].detach().set_requires_grad();
         return {grad({binary_cross_entropy(p, a[1], {.reduction = Reduction::sum})}, {p})[0]};
       },
       .oracle =
           [](const HostArgs& in) {
             return std::vector{HostArray{in[0].shape, {0, -1e12, 1e12, 0}}};
           },
       .dtypes = {DType::f64, DType::f32},
       .gradient = false,
       .compiled = false});
  return c;
}

OpCase with_logits_case() {
  OpCase c = loss_case({"binary_cross_entropy_with_logits",
                        [](const Tensor& a, const Tensor& b, Reduction r) {
                          return binary_cross_entropy_with_logits(a, b, {.reduction = r});
                        },
                        bce_with_logits, [](const Shape& s) { return x(s).in(-4, 4).away(0.1); },
                        probabilities});
  for (const Reduction r : kReductions)
    c.samples.push_back({.name = std::string("both weights, ") + name_of(r),
                         .in = {x({4, 3}).away(0.1), probabilities({4, 3}),
                                x({4, 1}).in(0.5, 2).constant(), x({3}).in(0.5, 3).constant()},
                         .call = [r](const Args& a) -> Tensors {
                           return {binary_cross_entropy_with_logits(
                               a[0], a[1], {.weight = a[2], .pos_weight = a[3], .reduction = r})};
                         },
                         .oracle =
                             [r](const HostArgs& in) {
                               return each(in[0], r, [&](size_t i) {
                                 const double z = in[0].values[i];
                                 const double t = in[1].values[i];
                                 return in[2].values[i / 3] *
                                        (in[3].values[i % 3] * t * softplus(-z) +
                                         (1 - t) * softplus(z));
                               });
                             }});
  Sample large = loss_sample(
      {"",
       [](const Tensor& a, const Tensor& b, Reduction r) {
         return binary_cross_entropy_with_logits(a, b, {.reduction = r});
       },
       bce_with_logits, [](const Shape& s) { return x(s).in(-60000, 60000); }, probabilities},
      "large", {9}, Reduction::none);
  large.gradient = false;
  c.samples.push_back(large);
  return c;
}

OpCase kl_div_case() {
  OpCase c = loss_case(
      {"kl_div",
       [](const Tensor& a, const Tensor& b, Reduction r) { return kl_div(a, b, {.reduction = r}); },
       [](double a, double t) { return t > 0 ? t * (std::log(t) - a) : 0; },
       [](const Shape& s) { return x(s).in(-4, 0); }, probabilities});
  c.samples.push_back(loss_sample({"",
                                   [](const Tensor& a, const Tensor& b, Reduction r) {
                                     return kl_div(a, b, {.log_target = true, .reduction = r});
                                   },
                                   [](double a, double t) { return std::exp(t) * (t - a); },
                                   [](const Shape& s) { return x(s).in(-4, 0); },
                                   [](const Shape& s) { return x(s).in(-4, 0); }},
                                  "log target", {4, 5}, Reduction::mean));
  Sample zero = c.samples[0];
  zero.name = "targets of 0";
  zero.in = {x({4}).in(-4, 0), x({4}).of({0, 1, 0, 0.5}).constant()};
  c.samples.push_back(zero);
  return c;
}

/// (N, C, …): calls f(target's index, class 0's index, distance of classes).
template <class F>
void each_target(const Shape& input, F&& f) {
  const int64_t classes = input.rank() == 1 ? input[0] : input[1];
  int64_t inner = 1;
  for (int i = 2; i < input.rank(); ++i) inner *= input[i];
  for (int64_t i = 0; i < numel(input) / classes; ++i)
    f(static_cast<size_t>(i), static_cast<size_t>(i / inner * classes * inner + i % inner),
      static_cast<size_t>(inner));
}

OpCase nll_case() {
  OpCase c{.op = "nll_loss", .samples = {}};
  struct Setup {
    const char* name;
    Shape input, target;
    bool weight;
    int64_t ignore;
    Reduction reduction;
  };
  const auto sample = [](const Setup& s) {
    const int64_t classes = s.input.rank() == 1 ? s.input[0] : s.input[1];
    std::vector<double> targets;
    for (int64_t i = 0; i < numel(s.target); ++i)
      targets.push_back(static_cast<double>(i * 7 % classes));
    return Sample{
        .name = std::string(s.name) + ", " + name_of(s.reduction),
        .in = {x(s.input).in(-4, 0), x(s.target).of(targets).as<DType::i64>(),
               s.weight ? x({classes}).in(0.5, 2).constant() : absent()},
        .call = [s](const Args& a) -> Tensors {
          return {nll_loss(a[0], a[1],
                           {.weight = a[2], .ignore_index = s.ignore, .reduction = s.reduction})};
        },
        .oracle =
            [s](const HostArgs& in) {
              HostArray losses{s.target, {}};
              double weights = 0;
              each_target(s.input, [&](size_t i, size_t first, size_t step) {
                const auto t = static_cast<size_t>(in[1].values[i]);
                double w = s.weight ? in[2].values[t] : 1;
                if (in[1].values[i] == static_cast<double>(s.ignore)) w = 0;
                losses.values.push_back(w > 0 ? -w * in[0].values[first + t * step] : 0);
                weights += w;
              });
              if (s.reduction != Reduction::mean) return reduced(losses, s.reduction);
              auto total = reduced(losses, Reduction::sum);
              total[0].values[0] /= weights;
              return total;
            }};
  };
  for (const Reduction r : kReductions) {
    c.samples.push_back(sample({"rows", {6, 5}, {6}, false, -100, r}));
    c.samples.push_back(sample({"images, weights", {2, 5, 3, 2}, {2, 3, 2}, true, -100, r}));
    c.samples.push_back(sample({"ignored", {6, 5}, {6}, true, 2, r}));
  }
  c.samples.push_back(sample({"one row without a batch", {5}, {}, true, -100, Reduction::mean}));
  c.samples.push_back(sample({"one element", {1, 1}, {1}, false, -100, Reduction::mean}));
  c.samples.push_back(sample({"no rows", {0, 3}, {0}, false, -100, Reduction::sum}));
  const auto call = [](Device d, const Shape& input, const Shape& target, DType dtype) {
    nll_loss(zeros(input, {.device = d}), zeros(target, {dtype, d}));
  };
  c.bad = {bad<ShapeError>("nll_loss: targets must be [3] for an input of [3, 5], got [4]",
                           [=](Device d) { call(d, {3, 5}, {4}, DType::i64); }),
           bad<ShapeError>("nll_loss: targets must be [2, 4] for an input of [2, 5, 4], got [2]",
                           [=](Device d) { call(d, {2, 5, 4}, {2}, DType::i64); }),
           bad<ShapeError>("nll_loss: expected at least one class, got [3, 0]",
                           [=](Device d) { call(d, {3, 0}, {3}, DType::i64); }),
           bad<DTypeError>("nll_loss: targets must be of an integer dtype, got f32",
                           [=](Device d) { call(d, {3, 5}, {3}, DType::f32); }),
           bad<ShapeError>("nll_loss: weight must be [C] with C = 5, got [4]",
                           [](Device d) {
                             nll_loss(zeros({3, 5}, {.device = d}), zeros({3}, {DType::i64, d}),
                                      {.weight = ones({4}, {.device = d})});
                           }),
           bad<IndexError>("index 7", [](Device d) {
             nll_loss(zeros({1, 5}, {.device = d}), full({1}, 7, {DType::i64, d}));
           })};
  return c;
}

OpCase cosine_similarity_case() {
  OpCase c{.op = "cosine_similarity", .samples = {}};
  // a (outer, n, inner) along the middle axis; b alike, or one vector for all.
  const auto sample = [](const char* name, const Shape& a, const Shape& b, int64_t axis) {
    return Sample{.name = name,
                  .in = {x(a), x(b)},
                  .call = [axis](const Args& in) -> Tensors {
                    return {cosine_similarity(in[0], in[1], {.axis = axis})};
                  },
                  .oracle =
                      [a, axis](const HostArgs& in) {
                        const int at = static_cast<int>(axis < 0 ? axis + a.rank() : axis);
                        HostArray out;
                        size_t inner = 1;
                        for (int i = 0; i < a.rank(); ++i) {
                          if (i != at) out.shape.push_back(a[i]);
                          if (i > at) inner *= static_cast<size_t>(a[i]);
                        }
                        const auto n = static_cast<size_t>(a[at]);
                        for (size_t i = 0; i < in[0].values.size() / std::max<size_t>(n, 1); ++i) {
                          double ab = 0, aa = 0, bb = 0;
                          for (size_t k = 0; k < n; ++k) {
                            const size_t p = (i / inner * n + k) * inner + i % inner;
                            const double u = in[0].values[p];
                            const double v = in[1].values[p % in[1].values.size()];
                            ab += u * v, aa += u * u, bb += v * v;
                          }
                          out.values.push_back(ab / std::max(std::sqrt(aa), 1e-8) /
                                               std::max(std::sqrt(bb), 1e-8));
                        }
                        return std::vector{out};
                      }};
  };
  c.samples = {sample("rows", {4, 5}, {4, 5}, 1),
               sample("columns", {4, 5}, {4, 5}, 0),
               sample("channels", {2, 3, 4, 2}, {2, 3, 4, 2}, 1),
               sample("one against many", {4, 5}, {5}, -1),
               sample("vectors", {6}, {6}, 0),
               sample("empty", {0, 3}, {0, 3}, 1)};
  Sample single = sample("one element", {1}, {1}, 0);
  single.gradient = false;  // it is a sign
  c.samples.push_back(single);
  Sample zero = sample("a vector of zeros", {2, 3}, {2, 3}, 1);
  zero.in[0] = x({2, 3}).of({0, 0, 0, 1, 2, 3});
  zero.dtypes = {DType::f64, DType::f32};
  zero.gradient = false;
  c.samples.push_back(zero);
  c.bad = {
      bad<ShapeError>("cosine_similarity: shapes [2, 3] and [2, 4] do not broadcast",
                      [](Device d) {
                        cosine_similarity(zeros({2, 3}, {.device = d}),
                                          zeros({2, 4}, {.device = d}));
                      }),
      bad<IndexError>("cosine_similarity: axis must be in [-1, 1), got 1",
                      [](Device d) {
                        cosine_similarity(zeros({3}, {.device = d}), zeros({3}, {.device = d}));
                      }),
      bad<DTypeError>("cosine_similarity: expected floating dtypes, got i64 and f32", [](Device d) {
        cosine_similarity(zeros({2, 3}, {DType::i64, d}), zeros({2, 3}, {.device = d}));
      })};
  return c;
}

OpCase cosine_embedding_case() {
  OpCase c{.op = "cosine_embedding_loss", .samples = {}};
  const auto sample = [](const char* name, const Shape& shape, Reduction r) {
    const Shape targets = shape.rank() == 1 ? Shape{} : Shape{shape[0]};
    return Sample{
        .name = std::string(name) + ", " + name_of(r),
        .in = {x(shape), x(shape), signs(targets)},
        .call = [r](const Args& a) -> Tensors {
          return {cosine_embedding_loss(a[0], a[1], a[2], {.margin = -0.9, .reduction = r})};
        },
        .oracle =
            [=](const HostArgs& in) {
              const auto n = static_cast<size_t>(shape.back());
              return each(in[2], r, [&](size_t i) {
                double ab = 0, aa = 1e-12, bb = 1e-12;
                for (size_t k = i * n; k < (i + 1) * n; ++k) {
                  ab += in[0].values[k] * in[1].values[k];
                  aa += in[0].values[k] * in[0].values[k];
                  bb += in[1].values[k] * in[1].values[k];
                }
                const double cosine = ab / std::sqrt(aa * bb);
                return in[2].values[i] > 0 ? 1 - cosine : std::max(0.0, cosine + 0.9);
              });
            }};
  };
  for (const Reduction r : kReductions) c.samples.push_back(sample("rows", {5, 4}, r));
  c.samples.push_back(sample("one pair", {4}, Reduction::mean));
  c.samples.push_back(sample("empty", {0, 4}, Reduction::sum));
  Sample single = sample("one element", {1}, Reduction::mean);
  single.gradient = false;
  c.samples.push_back(single);
  c.bad = {bad<ShapeError>("cosine_embedding_loss: inputs must have one shape, got [2, 3] and [3]",
                           [](Device d) {
                             cosine_embedding_loss(zeros({2, 3}, {.device = d}),
                                                   zeros({3}, {.device = d}),
                                                   ones({2}, {.device = d}));
                           }),
           bad<ShapeError>("cosine_embedding_loss: targets must be [2] for inputs of [2, 3], got",
                           [](Device d) {
                             cosine_embedding_loss(zeros({2, 3}, {.device = d}),
                                                   zeros({2, 3}, {.device = d}),
                                                   ones({3}, {.device = d}));
                           }),
           bad<ShapeError>("cosine_embedding_loss: inputs must be [N, D] or [D], got [2, 3, 4]",
                           [](Device d) {
                             const Tensor t = zeros({2, 3, 4}, {.device = d});
                             cosine_embedding_loss(t, t, ones({2}, {.device = d}));
                           })};
  return c;
}

OpCase margin_ranking_case() {
  OpCase c{.op = "margin_ranking_loss", .samples = {}};
  const auto sample = [](const char* name, const Shape& shape, Reduction r) {
    return Sample{
        .name = std::string(name) + ", " + name_of(r),
        .in = {inputs_off_kinks(shape), small_targets(shape), signs(shape)},
        .call = [r](const Args& a) -> Tensors {
          return {margin_ranking_loss(a[0], a[1], a[2], {.margin = 0.25, .reduction = r})};
        },
        .oracle =
            [r](const HostArgs& in) {
              return each(in[0], r, [&](size_t i) {
                return std::max(0.0, 0.25 - in[2].values[i] * (in[0].values[i] - in[1].values[i]));
              });
            }};
  };
  for (const Reduction r : kReductions) c.samples.push_back(sample("pairs", {7}, r));
  c.samples.push_back(sample("one element", {1}, Reduction::mean));
  c.samples.push_back(sample("empty", {0}, Reduction::sum));
  c.bad = {bad<ShapeError>(
      "margin_ranking_loss: inputs must have one shape, got [2] and [3]", [](Device d) {
        margin_ranking_loss(zeros({2}, {.device = d}), zeros({3}, {.device = d}),
                            ones({2}, {.device = d}));
      })};
  return c;
}

OpCase triplet_margin_case() {
  OpCase c{.op = "triplet_margin_loss", .samples = {}};
  const auto sample = [](const char* name, const Shape& shape, TripletMarginOptions o) {
    return Sample{.name = std::string(name) + ", " + name_of(o.reduction),
                  .in = {x(shape), x(shape), x(shape)},
                  .call = [o](const Args& a) -> Tensors {
                    return {triplet_margin_loss(a[0], a[1], a[2], o)};
                  },
                  .oracle =
                      [=](const HostArgs& in) {
                        HostArray losses;
                        for (int i = 0; i + 1 < shape.rank(); ++i) losses.shape.push_back(shape[i]);
                        const auto n = static_cast<size_t>(shape.back());
                        for (size_t i = 0; i < in[0].values.size() / n; ++i) {
                          const auto distance = [&](size_t a, size_t b) {
                            double sum = 0;
                            for (size_t k = i * n; k < (i + 1) * n; ++k)
                              sum += std::pow(std::abs(in[a].values[k] - in[b].values[k] + o.eps),
                                              o.p);
                            return std::pow(sum, 1 / o.p);
                          };
                          double far = distance(0, 2);
                          if (o.swap) far = std::min(far, distance(1, 2));
                          losses.values.push_back(std::max(0.0, distance(0, 1) - far + o.margin));
                        }
                        return reduced(losses, o.reduction);
                      }};
  };
  for (const Reduction r : kReductions)
    c.samples.push_back(sample("rows", {4, 5}, {.margin = 3, .reduction = r}));
  c.samples.push_back(sample("sums of distances", {4, 5}, {.margin = 5, .p = 1}));
  c.samples.push_back(sample("cubes", {3, 4}, {.margin = 3, .p = 3}));
  c.samples.push_back(sample("swapped", {6, 5}, {.margin = 3, .swap = true}));
  c.samples.push_back(sample("vectors", {5}, {.margin = 3}));
  c.samples.push_back(sample("empty", {0, 5}, {.reduction = Reduction::sum}));
  Sample single = sample("one element", {1}, {.margin = 9});
  single.gradient = false;  // a kink
  c.samples.push_back(single);
  const auto call = [](Device d, const Shape& other, TripletMarginOptions o) {
    triplet_margin_loss(zeros({2, 3}, {.device = d}), zeros({2, 3}, {.device = d}),
                        zeros(other, {.device = d}), o);
  };
  c.bad = {bad<ShapeError>("triplet_margin_loss: inputs must have one shape, got [2, 3] and [2]",
                           [=](Device d) { call(d, {2}, {}); }),
           bad<Error>("triplet_margin_loss: p must be positive, got 0",
                      [=](Device d) { call(d, {2, 3}, {.p = 0}); })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{
      loss_case({"mse_loss",
                 [](const Tensor& a, const Tensor& b, Reduction r) { return mse_loss(a, b, r); },
                 [](double a, double b) { return (a - b) * (a - b); }}),
      loss_case({"l1_loss",
                 [](const Tensor& a, const Tensor& b, Reduction r) { return l1_loss(a, b, r); },
                 [](double a, double b) { return std::abs(a - b); }, inputs_off_kinks,
                 small_targets}),
      smooth_l1_case(),
      huber_case(),
      binary_cross_entropy_case(),
      with_logits_case(),
      kl_div_case(),
      nll_case(),
      cosine_similarity_case(),
      cosine_embedding_case(),
      margin_ranking_case(),
      loss_case({"hinge_embedding_loss",
                 [](const Tensor& a, const Tensor& t, Reduction r) {
                   return hinge_embedding_loss(a, t, {.margin = 1, .reduction = r});
                 },
                 [](double a, double t) { return t > 0 ? a : std::max(0.0, 1 - a); },
                 inputs_off_kinks, signs}),
      loss_case(
          {"soft_margin_loss",
           [](const Tensor& a, const Tensor& t, Reduction r) { return soft_margin_loss(a, t, r); },
           [](double a, double t) { return softplus(-a * t); },
           [](const Shape& s) { return x(s).away(0.1); }, signs}),
      triplet_margin_case()};
});

}  // namespace
}  // namespace mica::cases

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/op_cases/device.h"
#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// The loss and each row's logsumexp; with `softmax` filled in.
std::vector<HostArray> loss_of(const HostArray& logits, const HostArray& target,
                               const CrossEntropyParams& p, HostArray* gradient = nullptr) {
  const int64_t rows = logits.shape[0];
  const int64_t classes = logits.shape[1];
  HostArray lse{{rows}, {}};
  double total = 0;
  double counted = 0;
  for (const double t : target.values) counted += t != static_cast<double>(p.ignore_index);
  if (gradient) *gradient = {logits.shape, {}};
  for (int64_t r = 0; r < rows; ++r) {
    const double* z = logits.values.data() + r * classes;
    const double largest = *std::max_element(z, z + classes);
    double sum = 0;
    double mean = 0;
    for (int64_t k = 0; k < classes; ++k)
      sum += std::exp(z[k] - largest), mean += z[k] / static_cast<double>(classes);
    lse.values.push_back(largest + std::log(sum));
    const auto t = static_cast<int64_t>(target.values[static_cast<size_t>(r)]);
    const bool ignored = t == p.ignore_index;
    if (!ignored)
      total += (1 - p.label_smoothing) * (lse.values.back() - z[t]) +
               p.label_smoothing * (lse.values.back() - mean);
    for (int64_t k = 0; k < classes && gradient; ++k) {
      const double wanted =
          (k == t ? 1 - p.label_smoothing : 0) + p.label_smoothing / static_cast<double>(classes);
      gradient->values.push_back(ignored ? 0
                                         : (std::exp(z[k] - lse.values.back()) - wanted) / counted);
    }
  }
  return {HostArray{{}, {total / counted}}, lse};
}

struct Setup {
  const char* name;
  int64_t rows, classes;
  CrossEntropyParams params;
  bool ignores = false;
};

std::vector<Setup> setups() {
  return {{"ten classes", 6, 10, {}},
          {"smoothed", 5, 7, {.label_smoothing = 0.1}},
          {"ignored rows", 8, 5, {.ignore_index = 2}, true},
          {"smoothed and ignored", 8, 5, {.ignore_index = 2, .label_smoothing = 0.2}, true},
          {"one class", 4, 1, {}},
          {"one row", 1, 33, {}},
          {"1000 classes", 3, 1000, {}},
          {"many rows", 300, 11, {}}};
}

Input target_for(const Setup& s) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(s.rows));
  for (int64_t i = 0; i < s.rows; ++i) values.push_back(static_cast<double>(i * 7 % s.classes));
  return x({s.rows}).of(values).as<DType::i64>();
}

/// What the composite of log_softmax computes: logits (N, C, …) or (C), targets that are classes or
/// probabilities.
struct General {
  const char* name;
  Shape logits;
  bool probabilities;
  bool weight;
  double label_smoothing;
  int64_t ignore_index;
  Reduction reduction;
};

std::vector<HostArray> general_loss(const HostArgs& in, const General& g) {
  const int axis = g.logits.rank() == 1 ? 0 : 1;
  const auto classes = static_cast<size_t>(g.logits[axis]);
  HostArray losses;
  size_t inner = 1;
  for (int i = 0; i < g.logits.rank(); ++i) {
    if (i != axis) losses.shape.push_back(g.logits[i]);
    if (i > axis) inner *= static_cast<size_t>(g.logits[i]);
  }
  double total = 0;
  double shares = 0;
  for (size_t i = 0; i < in[0].values.size() / classes; ++i) {
    const auto at = [&](size_t k) { return (i / inner * classes + k) * inner + i % inner; };
    double largest = -INFINITY;
    for (size_t k = 0; k < classes; ++k) largest = std::max(largest, in[0].values[at(k)]);
    double sum = 0;
    for (size_t k = 0; k < classes; ++k) sum += std::exp(in[0].values[at(k)] - largest);
    const bool ignored = !g.probabilities && in[1].values[i] == static_cast<double>(g.ignore_index);
    double loss = 0;
    for (size_t k = 0; k < classes && !ignored; ++k) {
      double wanted = g.probabilities ? in[1].values[at(k)]
                                      : (static_cast<double>(k) == in[1].values[i] ? 1.0 : 0.0);
      wanted = wanted * (1 - g.label_smoothing) + g.label_smoothing / static_cast<double>(classes);
      loss -= wanted * (in[0].values[at(k)] - largest - std::log(sum)) *
              (g.weight ? in[2].values[k] : 1);
    }
    losses.values.push_back(loss);
    total += loss;
    if (g.probabilities) {
      shares += 1;
    } else if (!ignored) {
      shares += g.weight ? in[2].values[static_cast<size_t>(in[1].values[i])] : 1;
    }
  }
  if (g.reduction == Reduction::none) return {losses};
  return {HostArray{{}, {g.reduction == Reduction::mean ? total / shares : total}}};
}

Sample general_sample(const General& g) {
  const int64_t classes = g.logits[g.logits.rank() == 1 ? 0 : 1];
  Shape targets;
  for (int i = 0; i < g.logits.rank(); ++i)
    if (i != (g.logits.rank() == 1 ? 0 : 1)) targets.push_back(g.logits[i]);
  std::vector<double> values;
  for (int64_t i = 0; i < numel(targets); ++i)
    values.push_back(static_cast<double>(i * 7 % classes));
  return {.name = g.name,
          .in = {x(g.logits).in(-4, 4),
                 g.probabilities ? x(g.logits).in(0, 1) : x(targets).of(values).as<DType::i64>(),
                 g.weight ? x({classes}).in(0.5, 2).constant() : absent()},
          .call = [g](const Args& a) -> Tensors {
            return {cross_entropy(a[0], a[1],
                                  {.weight = a[2],
                                   .ignore_index = g.ignore_index,
                                   .label_smoothing = g.label_smoothing,
                                   .reduction = g.reduction})};
          },
          .oracle = [g](const HostArgs& in) { return general_loss(in, g); }};
}

OpCase cross_entropy_case() {
  OpCase c{.op = "cross_entropy", .samples = {}};
  for (const Setup& s : setups()) {
    c.samples.push_back(
        {.name = s.name,
         .in = {x({s.rows, s.classes}).in(-4, 4), target_for(s)},
         .call = [s](const Args& a) -> Tensors {
           return {cross_entropy(a[0], a[1],
                                 {.ignore_index = s.params.ignore_index,
                                  .label_smoothing = s.params.label_smoothing})};
         },
         .oracle =
             [s](const HostArgs& in) { return std::vector{loss_of(in[0], in[1], s.params)[0]}; }});
    c.samples.push_back(
        {.name = std::string(s.name) + ", both outputs",
         .in = {x({s.rows, s.classes}).in(-4, 4), target_for(s)},
         .call = [s](const Args& a) { return call_op("cross_entropy", s.params, {a[0], a[1]}); },
         .oracle = [s](const HostArgs& in) { return loss_of(in[0], in[1], s.params); },
         .gradient = false});
  }
  const Setup plain{"plain", 5, 4, {}};
  const auto run = [](const Args& a) -> Tensors { return {cross_entropy(a[0], a[1])}; };
  const auto oracle = [](const HostArgs& in) { return std::vector{loss_of(in[0], in[1], {})[0]}; };
  Sample large{.name = "large logits",
               .in = {x({5, 4}).in(-30000, 30000), target_for(plain)},
               .call = run,
               .oracle = oracle};
  large.gradient = false;  // all but one of its entries are zero
  Sample i32{.name = "i32 targets",
             .in = {x({5, 4}), target_for(plain).as<DType::i32>()},
             .call = run,
             .oracle = oracle};
  Sample u8{.name = "u8 targets",
            .in = {x({5, 4}), target_for(plain).as<DType::u8>()},
            .call = run,
            .oracle = oracle};
  Sample single{.name = "one element",
                .in = {x({1, 1}), x({1}).of({0}).as<DType::i64>()},
                .call = run,
                .oracle = oracle};
  Sample none{.name = "no rows give NaN",
              .in = {x({0, 3}), x({0}).as<DType::i64>()},
              .call = run,
              .oracle = [](const HostArgs&) { return std::vector{HostArray{{}, {NAN}}}; },
              .gradient = false};
  Sample ignored{.name = "all ignored give NaN",
                 .in = {x({2, 3}), x({2}).of({-100, -100}).as<DType::i64>()},
                 .call = run,
                 .oracle = [](const HostArgs&) { return std::vector{HostArray{{}, {NAN}}}; },
                 .gradient = false};
  Sample nan{.name = "a NaN logit",
             .in = {x({2, 3}).of({1, NAN, 2, 1, 2, 3}), x({2}).of({0, 1}).as<DType::i64>()},
             .call = run,
             .oracle = [](const HostArgs&) { return std::vector{HostArray{{}, {NAN}}}; },
             .gradient = false};
  for (const Sample& s : {large, i32, u8, single, none, ignored, nan}) c.samples.push_back(s);
  constexpr auto kMean = Reduction::mean;
  constexpr auto kSum = Reduction::sum;
  constexpr auto kNone = Reduction::none;
  for (const General& g : std::vector<General>{
           {"images", {2, 5, 3, 2}, false, false, 0, -100, kMean},
           {"images, smoothed", {2, 5, 3, 2}, false, false, 0.1, 2, kMean},
           {"no batch", {5}, false, false, 0, -100, kMean},
           {"sum", {6, 5}, false, false, 0, -100, kSum},
           {"none", {6, 5}, false, false, 0, 2, kNone},
           {"weights", {6, 5}, false, true, 0, -100, kMean},
           {"weights, sum", {6, 5}, false, true, 0, 2, kSum},
           {"weights, smoothed", {6, 5}, false, true, 0.2, 2, kMean},
           {"weights, smoothed, none", {2, 5, 3}, false, true, 0.2, 2, kNone},
           {"probabilities", {6, 5}, true, false, 0, -100, kMean},
           {"probabilities of images", {2, 3, 2, 2}, true, true, 0.1, -100, kMean},
           {"probabilities, sum", {4, 3}, true, true, 0, -100, kSum},
           {"probabilities, none", {4, 3}, true, false, 0.3, -100, kNone},
           {"probabilities, no batch", {5}, true, true, 0, -100, kMean},
       })
    c.samples.push_back(general_sample(g));

  const auto call = [](Device d, const Shape& logits, const Shape& target, DType dtype,
                       const CrossEntropyOptions& p) {
    cross_entropy(zeros(logits, {.device = d}), zeros(target, {dtype, d}), p);
  };
  c.bad = {bad<ShapeError>("cross_entropy: targets must be [] for an input of [3], got [3]",
                           [=](Device d) { call(d, {3}, {3}, DType::i64, {}); }),
           bad<ShapeError>("cross_entropy: expected at least one class, got [3, 0]",
                           [=](Device d) { call(d, {3, 0}, {3}, DType::i64, {}); }),
           bad<ShapeError>("cross_entropy: targets must be [3] for an input of [3, 5], got [4]",
                           [=](Device d) { call(d, {3, 5}, {4}, DType::i64, {}); }),
           bad<ShapeError>("cross_entropy: probabilities must be [3, 5] as the logits, got [3]",
                           [=](Device d) { call(d, {3, 5}, {3}, DType::f32, {}); }),
           bad<DTypeError>("cross_entropy: targets must be of an integer dtype, got bool",
                           [=](Device d) { call(d, {3, 5}, {3}, DType::boolean, {}); }),
           bad<ShapeError>("cross_entropy: weight must be [C] with C = 5, got [3]",
                           [=](Device d) {
                             call(d, {3, 5}, {3}, DType::i64, {.weight = ones({3}, {.device = d})});
                           }),
           bad<Error>("cross_entropy: label_smoothing must be in [0, 1), got 1",
                      [=](Device d) { call(d, {3, 5}, {3}, DType::i64, {.label_smoothing = 1}); }),
           bad<DTypeError>("cross_entropy: expected a floating dtype, got i64",
                           [](Device d) {
                             cross_entropy(zeros({3, 5}, {DType::i64, d}),
                                           zeros({3}, {DType::i64, d}));
                           }),
           bad<ShapeError>("cross_entropy: logits must be [N, C] with at least one class, got [3]",
                           [](Device d) {
                             call_op("cross_entropy", CrossEntropyParams{},
                                     {zeros({3}, {.device = d}), zeros({3}, {DType::i64, d})});
                           }),
           bad<ShapeError>("cross_entropy: targets must be [N] with N = 3, got [4]", [](Device d) {
             call_op("cross_entropy", CrossEntropyParams{},
                     {zeros({3, 5}, {.device = d}), zeros({4}, {DType::i64, d})});
           })};
  return c;
}

OpCase cross_entropy_grad_case() {
  OpCase c{.op = "cross_entropy_grad", .samples = {}};
  for (const Setup& s : setups()) {
    c.samples.push_back(
        {.name = s.name,
         .in = {x({}).in(0.5, 2).statistic(), x({s.rows, s.classes}).in(-4, 4), target_for(s)},
         .call = [s](const Args& a) -> Tensors {
           const Tensor lse = call_op("cross_entropy", s.params, {a[1], a[2]})[1];
           return {cross_entropy_grad(a[0], a[1], a[2], lse, s.params)};
         },
         .oracle =
             [s](const HostArgs& in) {
               HostArray gradient;
               loss_of(in[1], in[2], s.params, &gradient);
               for (double& v : gradient.values) v *= in[0].values[0];
               return std::vector{gradient};
             }});
  }
  c.samples.push_back(
      {.name = "no rows",
       .in = {x({}).statistic(), x({0, 3}), x({0}).as<DType::i64>(), x({0}).statistic()},
       .call = [](const Args& a) -> Tensors {
         return {cross_entropy_grad(a[0], a[1], a[2], a[3], {})};
       },
       .oracle = [](const HostArgs& in) { return std::vector{in[1]}; }});
  c.bad = {bad<ShapeError>(
               "cross_entropy_grad: dloss must be [] and logsumexp [N] with N = 3, got [1] and [3]",
               [](Device d) {
                 const TensorOptions o{.device = d};
                 cross_entropy_grad(zeros({1}, o), zeros({3, 5}, o), zeros({3}, {DType::i64, d}),
                                    zeros({3}, o), {});
               }),
           bad<DTypeError>("cross_entropy_grad: dloss and logsumexp must be f32, got f64 and f32",
                           [](Device d) {
                             const TensorOptions o{.device = d};
                             cross_entropy_grad(zeros({}, {DType::f64, d}), zeros({3, 5}, o),
                                                zeros({3}, {DType::i64, d}), zeros({3}, o), {});
                           })};
  return c;
}

OpCase cross_entropy_with_grad_case() {
  OpCase c{.op = "cross_entropy_with_grad", .samples = {}};
  const auto sample = [](const char* name, const Input& logits, const Input& target,
                         const CrossEntropyParams& params) -> Sample {
    return {.name = name,
            .in = {logits, target},
            .call = [params](const Args& a) -> Tensors {
              return call_op("cross_entropy_with_grad", params, {a[0], a[1]});
            },
            .oracle =
                [params](const HostArgs& in) {
                  HostArray gradient;
                  const HostArray loss = loss_of(in[0], in[1], params, &gradient)[0];
                  return std::vector{loss, gradient};
                }};
  };
  for (const Setup& s : setups())
    c.samples.push_back(sample(s.name, x({s.rows, s.classes}).in(-4, 4), target_for(s), s.params));
  const Setup plain{"", 5, 4, {}};
  c.samples.push_back(sample("i32 targets", x({5, 4}), target_for(plain).as<DType::i32>(), {}));
  c.samples.push_back(sample("u8 targets", x({5, 4}), target_for(plain).as<DType::u8>(), {}));
  c.samples.push_back(sample("one element", x({1, 1}), x({1}).of({0}).as<DType::i64>(), {}));
  Sample none = sample("no rows", x({0, 3}), x({0}).as<DType::i64>(), {});
  Sample nan =
      sample("a NaN logit", x({1, 3}).of({1, NAN, 2}), x({1}).of({0}).as<DType::i64>(), {});
  nan.oracle = [](const HostArgs&) {
    return std::vector{HostArray{{}, {NAN}}, HostArray{{1, 3}, {NAN, NAN, NAN}}};
  };
  Sample many = sample("many classes", x({5, 4104}).in(-4, 4),
                       x({5}).of({4103, 0, -100, 17, 2000}).as<DType::i64>(), {});
  Sample smoothed = sample("many classes, smoothed", x({3, 4120}).in(-4, 4),
                           x({3}).of({1, 4119, 7}).as<DType::i64>(), {.label_smoothing = 0.2});
  for (Sample* s : {&many, &smoothed}) s->dtypes = {DType::f32, DType::bf16};
  for (Sample* s : {&none, &nan, &many, &smoothed}) {
    s->gradient = false;
    c.samples.push_back(*s);
  }
  c.bad = {bad<ShapeError>("cross_entropy_with_grad: targets must be [N] with N = 3, got [4]",
                           [](Device d) {
                             call_op("cross_entropy_with_grad", CrossEntropyParams{},
                                     {zeros({3, 5}, {.device = d}), zeros({4}, {DType::i64, d})});
                           })};
  return c;
}

HostArray logits_of(const HostArgs& in) {
  const int64_t rows = in[0].shape[0];
  const int64_t inner = in[0].shape[1];
  const int64_t classes = in[1].shape[0];
  HostArray logits{{rows, classes}, {}};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < classes; ++c) {
      double v = in[2].values.empty() ? 0 : in[2].values[static_cast<size_t>(c)];
      for (int64_t k = 0; k < inner; ++k)
        v += in[0].values[static_cast<size_t>(r * inner + k)] *
             in[1].values[static_cast<size_t>(c * inner + k)];
      logits.values.push_back(v);
    }
  return logits;
}

OpCase linear_cross_entropy_case() {
  OpCase c{.op = "linear_cross_entropy", .samples = {}};
  const auto sample = [](const Setup& s, int64_t inner, bool bias) -> Sample {
    // Logits of a few units, whatever the number of terms.
    const double most = 4 / std::sqrt(static_cast<double>(inner + 1));
    return {.name = s.name,
            .in = {x({s.rows, inner}), x({s.classes, inner}).in(-most, most),
                   bias ? x({s.classes}) : absent(), target_for(s)},
            .call = [s](const Args& a) -> Tensors {
              return call_op("linear_cross_entropy", s.params, {a[0], a[1], a[2], a[3]});
            },
            .oracle =
                [s](const HostArgs& in) {
                  HostArray gradient;
                  const HostArray loss = loss_of(logits_of(in), in[3], s.params, &gradient)[0];
                  return std::vector{loss, gradient};
                },
            .dtypes = {DType::f64, DType::f32}};
  };
  // A derivative by differences for each of many elements takes long.
  const auto long_sample = [&](const Setup& s, int64_t inner) {
    Sample long_one = sample(s, inner, true);
    long_one.gradient = false;
    return long_one;
  };
  for (const Setup& s : setups())
    if (s.classes < 1000) c.samples.push_back(sample(s, 7, s.classes != 7));
  c.samples.push_back(sample({"vectors", 19, 10, {}}, 12, true));
  c.samples.push_back(sample({"sixteen classes", 3, 16, {}}, 8, false));
  c.samples.push_back(long_sample({"a block's rows", 67, 10, {}}, 500));
  c.samples.push_back(long_sample({"every row", 512, 13, {}}, 36));
  c.samples.push_back(long_sample({"shared K", 64, 10, {}}, 3136));
  c.samples.push_back(long_sample({"shared K, odd", 37, 11, {.label_smoothing = 0.1}}, 1027));
  c.samples.push_back(long_sample({"K shared by two", 200, 5, {.ignore_index = 3}, true}, 1100));
  c.samples.push_back(sample({"one element", 1, 1, {}}, 1, true));
  Sample i32 = sample({"i32 targets", 5, 4, {}}, 6, true);
  i32.in[3] = target_for({"", 5, 4, {}}).as<DType::i32>();
  Sample u8 = sample({"u8 targets", 5, 4, {}}, 6, true);
  u8.in[3] = target_for({"", 5, 4, {}}).as<DType::u8>();
  Sample none = sample({"no rows", 0, 3, {}}, 4, true);
  Sample no_inputs = sample({"no inputs", 4, 3, {}}, 0, true);
  none.gradient = false;
  for (const Sample& s : {i32, u8, none, no_inputs}) c.samples.push_back(s);
  const auto call = [](Device d, const Shape& in, const Shape& weight, const Shape& bias,
                       int64_t targets) {
    const TensorOptions o{.device = d};
    call_op("linear_cross_entropy", CrossEntropyParams{},
            {zeros(in, o), zeros(weight, o), zeros(bias, o), zeros({targets}, {DType::i64, d})});
  };
  c.bad = {bad<ShapeError>("linear_cross_entropy: input and weight must be [N, K] and [C, K], got "
                           "[3, 5] and [4, 6]",
                           [=](Device d) { call(d, {3, 5}, {4, 6}, {4}, 3); }),
           bad<ShapeError>("linear_cross_entropy: bias must be [C] with C = 4, got [3]",
                           [=](Device d) { call(d, {3, 5}, {4, 5}, {3}, 3); }),
           bad<ShapeError>("linear_cross_entropy: targets must be [N] with N = 3, got [4]",
                           [=](Device d) { call(d, {3, 5}, {4, 5}, {4}, 4); })};
  return c;
}

/// The product of the logits' gradient and the weight, times the slope of the activation.
HostArray dx_of(const HostArgs& in, const HostArray& dlogits, Activation activation) {
  const int64_t rows = in[0].shape[0];
  const int64_t inner = in[0].shape[1];
  const int64_t classes = in[1].shape[0];
  HostArray dx{{rows, inner}, {}};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < inner; ++k) {
      double v = 0;
      for (int64_t c = 0; c < classes; ++c)
        v += dlogits.values[static_cast<size_t>(r * classes + c)] *
             in[1].values[static_cast<size_t>(c * inner + k)];
      if (activation != Activation::none) {
        const double s = in[4].values[dx.values.size()];
        v *= activation == Activation::relu
                 ? (s > 0 ? 1 : 0)
                 : std::erfc(-s / std::sqrt(2.0)) / 2 +
                       s * std::exp(-s * s / 2) / std::sqrt(2 * std::acos(-1.0));
      }
      dx.values.push_back(v);
    }
  return dx;
}

OpCase linear_cross_entropy_dgrad_case() {
  using enum Activation;
  OpCase c{.op = "linear_cross_entropy_dgrad", .samples = {}};
  const auto sample = [](const Setup& s, int64_t inner, Activation activation) -> Sample {
    const double most = 4 / std::sqrt(static_cast<double>(inner + 1));
    const Shape shape{s.rows, inner};
    return {.name = s.name,
            .in = {x(shape), x({s.classes, inner}).in(-most, most), x({s.classes}), target_for(s),
                   activation == none   ? absent()
                   : activation == relu ? x(shape).constant()
                                        : x(shape)},
            .call = [=](const Args& a) -> Tensors {
              return call_op("linear_cross_entropy_dgrad",
                             LinearCrossEntropyParams{s.params, activation},
                             {a[0], a[1], a[2], a[3], a[4]});
            },
            .oracle =
                [=](const HostArgs& in) {
                  HostArray gradient;
                  const HostArray loss = loss_of(logits_of(in), in[3], s.params, &gradient)[0];
                  return std::vector{loss, gradient, dx_of(in, gradient, activation)};
                },
            .dtypes = {DType::f64, DType::f32}};
  };
  const auto long_sample = [&](const Setup& s, int64_t inner, Activation activation) {
    Sample long_one = sample(s, inner, activation);
    long_one.gradient = false;
    return long_one;
  };
  c.samples = {sample({"no activation", 5, 4, {}}, 7, none),
               sample({"relu", 5, 4, {.label_smoothing = 0.1}}, 7, relu),
               sample({"gelu", 5, 4, {.ignore_index = 3}, true}, 7, gelu),
               sample({"vectors", 19, 10, {}}, 12, gelu),
               sample({"sixteen classes", 3, 16, {}}, 8, relu),
               long_sample({"a block's rows", 67, 10, {}}, 500, relu),
               long_sample({"every row", 512, 13, {}}, 36, gelu),
               long_sample({"shared K, odd", 37, 11, {}}, 1027, gelu),
               long_sample({"K shared by two", 200, 5, {.ignore_index = 3}, true}, 1100, none),
               sample({"one element", 1, 1, {}}, 1, gelu),
               long_sample({"no rows", 0, 3, {}}, 4, none)};
  const auto call = [](Device d, const Shape& saved, Activation activation) {
    const TensorOptions o{.device = d};
    call_op("linear_cross_entropy_dgrad", LinearCrossEntropyParams{{}, activation},
            {zeros({3, 5}, o), zeros({4, 5}, o), zeros({4}, o), zeros({3}, {DType::i64, d}),
             zeros(saved, o)});
  };
  c.bad = {bad<ShapeError>("linear_cross_entropy_dgrad: what is saved must be [3, 5] as the input, "
                           "got [3, 4]",
                           [=](Device d) { call(d, {3, 4}, gelu); }),
           bad<Error>("linear_cross_entropy_dgrad: something must be saved where there is an "
                      "activation, and only there",
                      [=](Device d) { call(d, {3, 5}, none); })};
  return c;
}

// The host sees the targets before it computes; a device gives NaN rather than waiting to be asked.
TEST(CrossEntropy, ATargetOutsideTheClasses) {
  const Device device = tested_device();
  if (device.is_null() || (device.is_cuda() && !cuda_available()))
    GTEST_SKIP() << "skipped: no values on " << to_string(device);
  for (const int64_t wrong : {int64_t{3}, int64_t{-1}}) {
    const auto loss = [&] {
      return cross_entropy(zeros({2, 3}, {.device = device}),
                           tensor({int64_t{0}, wrong}, {2}, device));
    };
    if (device.is_cuda()) {
      EXPECT_TRUE(std::isnan(loss().item()));
      const TensorOptions o{.device = device};
      const Tensors of_layer = call_op(
          "linear_cross_entropy", CrossEntropyParams{},
          {zeros({2, 8}, o), zeros({3, 8}, o), Tensor(), tensor({int64_t{0}, wrong}, {2}, device)});
      EXPECT_TRUE(std::isnan(of_layer[0].item()));
      const std::vector<float> grad = of_layer[1].to_vector<float>();
      for (size_t i = 0; i < grad.size(); ++i) EXPECT_EQ(std::isnan(grad[i]), i >= 3) << i;
      continue;
    }
    try {
      loss();
      ADD_FAILURE() << "a target of " << wrong << " was taken";
    } catch (const IndexError& e) {
      const std::string expected =
          "cross_entropy: target " + std::to_string(wrong) + " of row 1 is outside [0, 3)";
      EXPECT_EQ(e.what(), expected);
    }
  }
}

const Room kRoom([] {
  return std::vector<OpCase>{cross_entropy_case(), cross_entropy_grad_case(),
                             cross_entropy_with_grad_case(), linear_cross_entropy_case(),
                             linear_cross_entropy_dgrad_case()};
});

}  // namespace
}  // namespace mica::cases

#include "tests/op_cases/elementwise_samples.h"

namespace mica::cases {
namespace {

/// Parameters that are not the defaults, so that they are seen to count.
constexpr LeakyReluParams kLeaky{.slope = 0.2};
constexpr EluParams kElu{.alpha = 1.5};
constexpr SoftplusParams kSoftplus{.beta = 2, .threshold = 5};

double logistic(double v) { return 1 / (1 + std::exp(-v)); }
double normal_below(double v) { return 0.5 * std::erfc(-v / std::sqrt(2.0)); }
double mish_tanh(double v) { return std::tanh(std::log1p(std::exp(std::min(v, 50.0)))); }
double gelu_inner(double v) { return std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v); }

struct Activation {
  const char* op;
  Call1 call;
  Double1 value;
  Double1 slope;
  Range range = {.low = -4, .high = 4, .away = 0.1};
};

constexpr double kScale = 1.0507009873554804934193349852946;
constexpr double kAlpha = 1.6732632423543772848170429916717;

const std::vector<Activation>& activations() {
  static const std::vector<Activation> list = {
      {"leaky_relu", [](const Tensor& t) { return leaky_relu(t, kLeaky); },
       [](double v) { return v > 0 ? v : 0.2 * v; }, [](double v) { return v > 0 ? 1 : 0.2; }},
      {"elu", [](const Tensor& t) { return elu(t, kElu); },
       [](double v) { return v > 0 ? v : 1.5 * std::expm1(v); },
       [](double v) { return v > 0 ? 1 : 1.5 * std::exp(v); }},
      {"selu", [](const Tensor& t) { return selu(t); },
       [](double v) { return kScale * (v > 0 ? v : kAlpha * std::expm1(v)); },
       [](double v) { return kScale * (v > 0 ? 1 : kAlpha * std::exp(v)); }},
      {"gelu", [](const Tensor& t) { return gelu(t); },
       [](double v) { return v * normal_below(v); },
       [](double v) { return normal_below(v) + v * std::exp(-0.5 * v * v) / std::sqrt(2 * M_PI); }},
      {"gelu_tanh", [](const Tensor& t) { return gelu(t, GeluForm::tanh); },
       [](double v) { return 0.5 * v * (1 + std::tanh(gelu_inner(v))); },
       [](double v) {
         const double t = std::tanh(gelu_inner(v));
         return 0.5 * (1 + t) +
                0.5 * v * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * v * v);
       }},
      {"silu", [](const Tensor& t) { return silu(t); }, [](double v) { return v * logistic(v); },
       [](double v) { return logistic(v) * (1 + v * (1 - logistic(v))); }},
      {"softplus",
       [](const Tensor& t) { return softplus(t, kSoftplus); },
       [](double v) { return 2 * v > 5 ? v : std::log1p(std::exp(2 * v)) / 2; },
       [](double v) { return 2 * v > 5 ? 1 : logistic(2 * v); },
       {.low = -4, .high = 2.4, .away = 0}},
      {"hardsigmoid",
       [](const Tensor& t) { return hardsigmoid(t); },
       [](double v) { return std::isnan(v) ? v : std::clamp(v / 6 + 0.5, 0.0, 1.0); },
       [](double v) { return v > -3 && v < 3 ? 1.0 / 6 : 0; },
       {.low = -2.9, .high = 2.9}},
      {"mish", [](const Tensor& t) { return mish(t); }, [](double v) { return v * mish_tanh(v); },
       [](double v) {
         const double t = mish_tanh(v);
         return t + v * logistic(v) * (1 - t * t);
       }},
  };
  return list;
}

OpCase forward_case(const Activation& a) {
  return {.op = a.op,
          .samples = unary_samples(a.call, a.value, a.range),
          .bad = {refuses(a.op, DType::i64, "a floating dtype", a.call)}};
}

template <class P>
OpCase backward_case(const char* op, const P& params, const Activation& a) {
  const auto run = [op, params](const Args& in) -> Tensors {
    return call_op(op, params, {in[0], in[1]});
  };
  const auto f = [slope = a.slope](double dy, double v) { return dy * slope(v); };
  OpCase c{.op = op,
           .samples = {},
           .bad = {bad<ShapeError>(
               std::string(op) + ": shapes [2] and [3] do not broadcast", [op, params](Device d) {
                 call_op(op, params, {zeros({2}, {.device = d}), zeros({3}, {.device = d})});
               })}};
  for (const Shape& shape : {Shape{3, 4}, Shape{2, 3, 4, 5}, Shape{1}, Shape{0, 2}, Shape{1037}})
    c.samples.push_back(
        {.name = to_string(shape),
         .in = {x(shape), x(shape).in(a.range.low, a.range.high).away(a.range.away)},
         .call = run,
         .oracle = binary_oracle(f)});
  return c;
}

OpCase prelu_case() {
  const auto run = [](const Args& a) -> Tensors { return {prelu(a[0], a[1])}; };
  const auto oracle = [](const HostArgs& in) {
    HostArray out = in[0];
    const size_t weights = in[1].values.size();
    const auto inner = static_cast<size_t>(
        out.shape.rank() < 3 ? 1 : numel(out.shape) / (out.shape[0] * out.shape[1]));
    for (size_t i = 0; i < out.values.size(); ++i)
      if (out.values[i] <= 0) out.values[i] *= in[1].values[i / inner % weights];
    return std::vector{out};
  };
  const auto sample = [&](const char* name, const Shape& shape, const Shape& weight) {
    return Sample{.name = name,
                  .in = {x(shape).away(0.1), x(weight).in(0.1, 0.5)},
                  .call = run,
                  .oracle = oracle};
  };
  return {
      .op = "prelu",
      .samples = {sample("one weight", {3, 4}, {1}), sample("rows", {5, 3}, {3}),
                  sample("images", {2, 3, 4, 5}, {3}), sample("one element", {1}, {1}),
                  sample("empty", {0, 2}, {2}), sample("odd length", {1037}, {1})},
      .bad = {bad<ShapeError>(
                  "prelu: weight must be [1] or [C] for x [N, C, …], got [3]",
                  [](Device d) { prelu(zeros({2, 4}, {.device = d}), zeros({3}, {.device = d})); }),
              bad<DTypeError>("prelu: operands must have one dtype, got f32 and f64", [](Device d) {
                prelu(zeros({2, 4}, {.device = d}), zeros({4}, {DType::f64, d}));
              })}};
}

OpCase clipped_relu_case() {
  const auto call = [](const Tensor& t) { return clipped_relu(t, 1.5); };
  OpCase c{.op = "clipped_relu",
           .samples = unary_samples(call, [](double v) { return v < 0     ? 0
                                                                : v > 1.5 ? 1.5
                                                                          : v; },
                                    {.low = -1.4, .high = 1.4}),
           .bad = {bad<Error>("clipped_relu: limit must not be negative, got -1",
                              [](Device d) { clipped_relu(zeros({2}, {.device = d}), -1); })}};
  return c;
}

OpCase log_sigmoid_case() {
  const auto call = [](const Tensor& t) { return log_sigmoid(t); };
  return {
      .op = "log_sigmoid",
      .samples = unary_samples(
          call,
          [](double v) { return v < 0 ? v - std::log1p(std::exp(v)) : -std::log1p(std::exp(-v)); },
          {.low = -9, .high = 9}),
      .bad = {bad<DTypeError>("expected a floating dtype, got i64",
                              [](Device d) { log_sigmoid(zeros({2}, {DType::i64, d})); })}};
}

const Room kRoom([] {
  const std::vector<Activation>& a = activations();
  std::vector<OpCase> cases;
  for (const Activation& each : a) cases.push_back(forward_case(each));
  cases.push_back(backward_case("leaky_relu_grad", kLeaky, a[0]));
  cases.push_back(backward_case("elu_grad", kElu, a[1]));
  cases.push_back(backward_case("selu_grad", NoParams{}, a[2]));
  cases.push_back(backward_case("gelu_grad", NoParams{}, a[3]));
  cases.push_back(backward_case("gelu_tanh_grad", NoParams{}, a[4]));
  cases.push_back(backward_case("silu_grad", NoParams{}, a[5]));
  cases.push_back(backward_case("softplus_grad", kSoftplus, a[6]));
  cases.push_back(backward_case("hardsigmoid_grad", NoParams{}, a[7]));
  cases.push_back(backward_case("mish_grad", NoParams{}, a[8]));
  cases.push_back(prelu_case());
  cases.push_back(clipped_relu_case());
  cases.push_back(log_sigmoid_case());
  return cases;
});

}  // namespace
}  // namespace mica::cases

// Functions of one, two and three operands, element by element. A number in place of an operand is
// weak: it takes the tensor's dtype.
#include "python/src/def.h"
#include "python/src/inplace.h"

namespace mica::python {
namespace {

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using BinaryNumber = Tensor (*)(const Tensor&, double);
using NumberBinary = Tensor (*)(double, const Tensor&);

constexpr std::pair<const char*, Unary> kUnary[] = {
    {"neg", neg},
    {"abs", abs},
    {"sign", sign},
    {"square", square},
    {"sqrt", sqrt},
    {"rsqrt", rsqrt},
    {"reciprocal", reciprocal},
    {"exp", exp},
    {"exp2", exp2},
    {"expm1", expm1},
    {"log", log},
    {"log2", log2},
    {"log10", log10},
    {"log1p", log1p},
    {"sin", sin},
    {"cos", cos},
    {"tan", tan},
    {"asin", asin},
    {"acos", acos},
    {"atan", atan},
    {"sinh", sinh},
    {"cosh", cosh},
    {"tanh", tanh},
    {"asinh", asinh},
    {"acosh", acosh},
    {"atanh", atanh},
    {"erf", erf},
    {"sigmoid", sigmoid},
    {"relu", relu},
    {"floor", floor},
    {"ceil", ceil},
    {"round", round},
    {"trunc", trunc},
    {"isnan", isnan},
    {"isinf", isinf},
    {"isfinite", isfinite},
    {"logical_not", logical_not},
    {"bitwise_not", bitwise_not},
    // PyTorch's second names
    {"absolute", abs},
    {"negative", neg},
};

struct BinaryRow {
  const char* name;
  Binary tensors;
  BinaryNumber number = nullptr;  ///< with a number for the second operand
  NumberBinary number_first = nullptr;
  const char* second = "other";  ///< the second argument's name
};

constexpr BinaryRow kBinary[] = {
    {"add", add, add},
    {"sub", sub, sub, sub},
    {"mul", mul, mul},
    {"div", div, div, div},
    {"floor_divide", floor_divide, floor_divide},
    {"remainder", remainder, remainder},
    {"pow", pow, pow, pow, "exponent"},
    {"minimum", minimum, minimum},
    {"maximum", maximum, maximum},
    {"atan2", atan2},
    {"logical_and", logical_and},
    {"logical_or", logical_or},
    {"logical_xor", logical_xor},
    {"bitwise_and", bitwise_and},
    {"bitwise_or", bitwise_or},
    {"bitwise_xor", bitwise_xor},
    {"bitwise_left_shift", left_shift},
    {"bitwise_right_shift", right_shift},
    {"fmod", fmod, fmod},
    {"hypot", hypot},
    {"logaddexp", logaddexp},
    {"xlogy", xlogy},
    // PyTorch's second names
    {"subtract", sub, sub, sub},
    {"multiply", mul, mul},
    {"divide", div, div, div},
    {"true_divide", div, div, div},
};

constexpr BinaryRow kComparisons[] = {
    {"eq", eq, eq},
    {"ne", ne, ne},
    {"lt", lt, lt},
    {"le", le, le},
    {"gt", gt, gt},
    {"ge", ge, ge},
    // PyTorch's second names
    {"not_equal", ne, ne},
    {"less", lt, lt},
    {"less_equal", le, le},
    {"greater", gt, gt},
    {"greater_equal", ge, ge},
};

/// A tensor beside a Python float: integers become float32.
Tensor beside_float(const Tensor& x) { return is_floating(x.dtype()) ? x : cast(x, DType::f32); }

void bind_binary(Scope& scope, const BinaryRow& row) {
  const nb::arg second(row.second);
  scope.both(row.name, row.tensors, second);
  if (row.number) {
    const auto with_integer = [number = row.number](const Tensor& x, int64_t y) {
      return number(x, static_cast<double>(y));
    };
    const auto with_float = [number = row.number](const Tensor& x, double y) {
      return number(beside_float(x), y);
    };
    scope.both(row.name, with_integer, second);
    scope.both(row.name, with_float, second);
  }
  if (row.number_first) {
    const auto integer_first = [number = row.number_first](int64_t x, const Tensor& y) {
      return number(static_cast<double>(x), y);
    };
    const auto float_first = [number = row.number_first](double x, const Tensor& y) {
      return number(x, beside_float(y));
    };
    scope.m.def(row.name, integer_first, "input"_a, second, ReleaseGil());
    scope.m.def(row.name, float_first, "input"_a, second, ReleaseGil());
  }
}

void bind_comparison(Scope& scope, const BinaryRow& row) {
  const nb::arg second(row.second);
  scope.both(row.name, row.tensors, second);
  scope.both(row.name, row.number, second);
}

/// where(condition, input, other) with numbers for one or both of the values.
template <class Number>
void bind_where_numbers(Scope& scope) {
  constexpr bool kFloat = std::is_same_v<Number, double>;
  const auto beside = [](const Tensor& x) { return kFloat ? beside_float(x) : x; };
  const auto last = [beside](const Tensor& condition, const Tensor& input, Number other) {
    return where(condition, beside(input), static_cast<double>(other));
  };
  const auto middle = [beside](const Tensor& condition, Number input, const Tensor& other) {
    return where(condition, static_cast<double>(input), beside(other));
  };
  const auto both = [](const Tensor& condition, Number input, Number other) {
    const TensorOptions options{kFloat ? DType::f32 : DType::i64, condition.device()};
    return where(condition, full({}, static_cast<double>(input), options),
                 full({}, static_cast<double>(other), options));
  };
  const auto method = [last](const Tensor& input, const Tensor& condition, Number other) {
    return last(condition, input, other);
  };
  Functions& m = scope.m;
  m.def("where", last, "condition"_a, "input"_a, "other"_a, ReleaseGil());
  m.def("where", middle, "condition"_a, "input"_a, "other"_a, ReleaseGil());
  m.def("where", both, "condition"_a, "input"_a, "other"_a, ReleaseGil());
  scope.tensor.def("where", method, "condition"_a, "other"_a, ReleaseGil());
}

void bind_where(Scope& scope) {
  using Three = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);
  using LastNumber = Tensor (*)(const Tensor&, const Tensor&, double);
  scope.m.def("where", Three(where), "condition"_a, "input"_a, "other"_a, ReleaseGil());
  const auto method = [](const Tensor& x, const Tensor& condition, const Tensor& other) {
    return where(condition, x, other);
  };
  scope.tensor.def("where", method, "condition"_a, "other"_a, ReleaseGil());
  bind_where_numbers<int64_t>(scope);
  bind_where_numbers<double>(scope);
  scope.both("lerp", Three(lerp), "end"_a, "weight"_a);
  scope.both("lerp", LastNumber(lerp), "end"_a, "weight"_a);
  scope.both("addcmul", addcmul, "tensor1"_a, "tensor2"_a, nb::kw_only(), "value"_a = 1.0);
  scope.both("addcdiv", addcdiv, "tensor1"_a, "tensor2"_a, nb::kw_only(), "value"_a = 1.0);
}

Tensor clamp_between(const Tensor& x, std::optional<double> min, std::optional<double> max) {
  ClampParams params;
  params.low = min.value_or(params.low);
  params.high = max.value_or(params.high);
  return clamp(x, params);
}

void bind_bounds(Scope& scope) {
  using Three = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);
  for (const char* name : {"clamp", "clip"}) {
    scope.both(name, clamp_between, "min"_a = nb::none(), "max"_a = nb::none());
    scope.both(name, Three(clamp), "min"_a, "max"_a);
  }
  scope.both(
      "clamp_min", [](const Tensor& x, double min) { return clamp_between(x, min, {}); }, "min"_a);
  scope.both("clamp_min", Binary(maximum), "min"_a);
  scope.both(
      "clamp_max", [](const Tensor& x, double max) { return clamp_between(x, {}, max); }, "max"_a);
  scope.both("clamp_max", Binary(minimum), "max"_a);
  scope.both(
      "nan_to_num",
      [](const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
        return nan_to_num(x, {.nan = nan, .posinf = posinf, .neginf = neginf});
      },
      "nan"_a = 0.0, "posinf"_a = nb::none(), "neginf"_a = nb::none());
}

void bind_close(Scope& scope) {
  scope.both(
      "isclose",
      [](const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
        return isclose(x, y, {.rtol = rtol, .atol = atol, .equal_nan = equal_nan});
      },
      "other"_a, "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false);
  scope.both(
      "allclose",
      [](const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
        return allclose(x, y, {.rtol = rtol, .atol = atol, .equal_nan = equal_nan});
      },
      "other"_a, "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false);
  scope.both("equal", mica::equal, "other"_a);
}

}  // namespace

void bind_elementwise(Scope& scope) {
  for (const auto& [name, f] : kUnary) scope.both(name, f);
  for (const BinaryRow& row : kBinary) bind_binary(scope, row);
  for (const BinaryRow& row : kComparisons) bind_comparison(scope, row);
  bind_where(scope);
  bind_bounds(scope);
  bind_close(scope);
}

void bind_activations(Scope& scope) {
  Functions& f = scope.functional;
  constexpr std::pair<const char*, Unary> kPlain[] = {
      {"sigmoid", sigmoid},
      {"tanh", tanh},
      {"logsigmoid", log_sigmoid},
  };
  for (const auto& [name, op] : kPlain) f.def(name, op, "input"_a, ReleaseGil());
  constexpr std::pair<const char*, Unary> kInplace[] = {
      {"relu", relu}, {"selu", selu},           {"silu", silu},
      {"mish", mish}, {"hardswish", hardswish}, {"hardsigmoid", hardsigmoid},
  };
  for (const auto& [name, op] : kInplace) {
    f.def(
        name, [function = op](const Tensor& x, bool) { return function(x); }, "input"_a, inplace(),
        ReleaseGil());
  }
  f.def(
      "leaky_relu",
      [](const Tensor& x, double slope, bool) { return leaky_relu(x, {.slope = slope}); },
      "input"_a, "negative_slope"_a = 0.01, inplace(), ReleaseGil());
  f.def("prelu", prelu, "input"_a, "weight"_a, ReleaseGil());
  f.def("clipped_relu", clipped_relu, "input"_a, "limit"_a = 6.0, ReleaseGil());
  f.def(
      "elu", [](const Tensor& x, double alpha, bool) { return elu(x, {.alpha = alpha}); },
      "input"_a, "alpha"_a = 1.0, inplace(), ReleaseGil());
  f.def(
      "gelu",
      [](const Tensor& x, const std::string& approximate) {
        const auto form = parse_word<GeluForm>("gelu: approximate", approximate,
                                               {{"none", GeluForm::erf}, {"tanh", GeluForm::tanh}});
        return gelu(x, form);
      },
      "input"_a, "approximate"_a = "none", ReleaseGil());
  f.def(
      "softplus",
      [](const Tensor& x, double beta, double threshold) {
        return softplus(x, {.beta = beta, .threshold = threshold});
      },
      "input"_a, "beta"_a = 1.0, "threshold"_a = 20.0, ReleaseGil());
}

}  // namespace mica::python

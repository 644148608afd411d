#include <cmath>
#include <limits>
#include <numbers>

#include "mica/core/dtype.h"
#include "mica/inference/network.h"
#include "mica/onnx/exporter.h"

namespace mica::onnx {
namespace {

using E = const Exported&;

/// The operator of this name, of inputs in the dtype of the result.
template <auto& op>
void same(E e) {
  e.emit(op, e.in_dtype(e.out_spec[0].dtype));
}

/// Of inputs in the dtype that they promote to.
Names promoted(E e) { return e.in_dtype(promote(e.in_spec[0].dtype, e.in_spec[1].dtype)); }
template <auto& op>
void compares(E e) {
  e.emit(op, promoted(e));
}
template <auto& op>
void logical(E e) {
  e.emit(op, e.in_dtype(DType::boolean));
}

// Names that are arguments of templates.
constexpr char kAbs[] = "Abs", kAcos[] = "Acos", kAcosh[] = "Acosh", kAdd[] = "Add", kAnd[] = "And",
               kAsin[] = "Asin", kAsinh[] = "Asinh", kAtan[] = "Atan", kAtanh[] = "Atanh",
               kCeil[] = "Ceil", kCos[] = "Cos", kCosh[] = "Cosh", kDiv[] = "Div",
               kEqual[] = "Equal", kErf[] = "Erf", kExp[] = "Exp", kFloor[] = "Floor",
               kGreater[] = "Greater", kGreaterOrEqual[] = "GreaterOrEqual",
               kHardSwish[] = "HardSwish", kLess[] = "Less", kLessOrEqual[] = "LessOrEqual",
               kLog[] = "Log", kMax[] = "Max", kMin[] = "Min", kMul[] = "Mul", kNeg[] = "Neg",
               kNot[] = "Not", kOr[] = "Or", kPow[] = "Pow", kPRelu[] = "PRelu",
               kReciprocal[] = "Reciprocal", kRelu[] = "Relu", kRound[] = "Round", kSelu[] = "Selu",
               kSigmoid[] = "Sigmoid", kSign[] = "Sign", kSin[] = "Sin", kSinh[] = "Sinh",
               kSqrt[] = "Sqrt", kSub[] = "Sub", kTan[] = "Tan", kTanh[] = "Tanh", kXor[] = "Xor";

std::string x_of(E e) { return e.in_dtype(e.out_spec[0].dtype)[0]; }

void silu(E e) {
  const std::string x = x_of(e);
  e.emit("Mul", {x, e.to.node("Sigmoid", {x})});
}

/// x * (1 + inner) / 2.
void half_gate(E e, const std::string& x, const std::string& inner) {
  const std::string gate = e.to.node("Add", {inner, e.number(1)});
  e.emit("Mul", {e.to.node("Mul", {x, gate}), e.number(0.5)});
}

void gelu(E e) {
  const std::string x = x_of(e);
  const std::string scaled = e.to.node("Mul", {x, e.number(1 / std::numbers::sqrt2)});
  half_gate(e, x, e.to.node("Erf", {scaled}));
}

void gelu_tanh(E e) {
  const std::string x = x_of(e);
  const std::string cube = e.to.node("Mul", {x, e.to.node("Mul", {x, x})});
  const std::string sum = e.to.node("Add", {x, e.to.node("Mul", {cube, e.number(0.044715)})});
  const std::string scaled =
      e.to.node("Mul", {sum, e.number(std::numbers::sqrt2 * std::numbers::inv_sqrtpi)});
  half_gate(e, x, e.to.node("Tanh", {scaled}));
}

void mish(E e) {
  const std::string x = x_of(e);
  e.emit("Mul", {x, e.to.node("Tanh", {e.to.node("Softplus", {x})})});
}

void leaky_relu(E e) { e.emit("LeakyRelu", {x_of(e)}, {{"alpha", e.param<double>("slope")}}); }
void elu(E e) { e.emit("Elu", {x_of(e)}, {{"alpha", e.param<double>("alpha")}}); }
void hardsigmoid(E e) { e.emit("HardSigmoid", {x_of(e)}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}); }
void softplus(E e) {
  const double beta = e.param<double>("beta");
  if (beta == 1) return e.emit("Softplus", {x_of(e)});
  const std::string scaled = e.to.node("Mul", {x_of(e), e.number(beta)});
  e.emit("Div", {e.to.node("Softplus", {scaled}), e.number(beta)});
}

void square(E e) {
  const std::string x = x_of(e);
  e.emit("Mul", {x, x});
}
void rsqrt(E e) { e.emit("Reciprocal", {e.to.node("Sqrt", {x_of(e)})}); }
void log1p(E e) { e.emit("Log", {e.to.node("Add", {x_of(e), e.number(1)})}); }
void expm1(E e) { e.emit("Sub", {e.to.node("Exp", {x_of(e)}), e.number(1)}); }
void exp2(E e) { e.emit("Pow", {e.number(2), x_of(e)}); }
void log2(E e) { e.emit("Mul", {e.to.node("Log", {x_of(e)}), e.number(1 / std::numbers::ln2)}); }
void log10(E e) { e.emit("Mul", {e.to.node("Log", {x_of(e)}), e.number(1 / std::numbers::ln10)}); }
void erfc(E e) { e.emit("Sub", {e.number(1), e.to.node("Erf", {x_of(e)})}); }
void trunc(E e) {
  const std::string x = x_of(e);
  e.emit("Mul", {e.to.node("Sign", {x}), e.to.node("Floor", {e.to.node("Abs", {x})})});
}

void ne(E e) { e.emit("Not", {e.to.node("Equal", promoted(e))}); }
void floor_divide(E e) {
  e.expect(is_floating(e.out_spec[0].dtype), "of integers, where ONNX rounds to zero");
  e.emit("Floor", {e.to.node("Div", e.in_dtype(e.out_spec[0].dtype))});
}
void remainder(E e) {
  const Names in = e.in_dtype(e.out_spec[0].dtype);
  if (!is_floating(e.out_spec[0].dtype)) return e.emit("Mod", in);
  const std::string whole = e.to.node("Floor", {e.to.node("Div", in)});
  e.emit("Sub", {in[0], e.to.node("Mul", {whole, in[1]})});
}
void lerp(E e) {
  const Names in = e.in_dtype(e.out_spec[0].dtype);
  const std::string way = e.to.node("Mul", {in[2], e.to.node("Sub", {in[1], in[0]})});
  e.emit("Add", {in[0], way});
}
void where(E e) {
  const DType dtype = e.out_spec[0].dtype;
  e.emit("Where", {e.to.cast(e.in[0], e.in_spec[0].dtype, DType::boolean),
                   e.to.cast(e.in[1], e.in_spec[1].dtype, dtype),
                   e.to.cast(e.in[2], e.in_spec[2].dtype, dtype)});
}
void clamp(E e) {
  const double low = e.param<double>("low");
  const double high = e.param<double>("high");
  e.emit("Clip",
         {x_of(e), std::isinf(low) ? "" : e.number(low), std::isinf(high) ? "" : e.number(high)});
}
void isnan(E e) { e.emit("IsNaN", {e.in[0]}); }
void isinf(E e) { e.emit("IsInf", {e.to.cast(e.in[0], e.in_spec[0].dtype, DType::f32)}); }
void isfinite(E e) {
  const std::string x = e.to.cast(e.in[0], e.in_spec[0].dtype, DType::f32);
  e.emit("Not", {e.to.node("Or", {e.to.node("IsNaN", {x}), e.to.node("IsInf", {x})})});
}
void copy(E e) {
  const DType to = e.out_spec[0].dtype;
  if (e.in_spec[0].dtype == to) return e.emit("Identity", e.in);
  e.emit("Cast", e.in, {{"to", int64_t{info_of(to).onnx}}});
}

}  // namespace

const ExportTable& elementwise_exports() {
  static const ExportTable table = {
      {"abs", same<kAbs>},
      {"acos", same<kAcos>},
      {"acosh", same<kAcosh>},
      {"add", same<kAdd>},
      {"asin", same<kAsin>},
      {"asinh", same<kAsinh>},
      {"atan", same<kAtan>},
      {"atanh", same<kAtanh>},
      {"ceil", same<kCeil>},
      {"clamp", clamp},
      {"copy", copy},
      {"cos", same<kCos>},
      {"cosh", same<kCosh>},
      {"div", same<kDiv>},
      {"elu", elu},
      {"eq", compares<kEqual>},
      {"erf", same<kErf>},
      {"erfc", erfc},
      {"exp", same<kExp>},
      {"exp2", exp2},
      {"expm1", expm1},
      {"floor", same<kFloor>},
      {"floor_divide", floor_divide},
      {"ge", compares<kGreaterOrEqual>},
      {"gelu", gelu},
      {"gelu_tanh", gelu_tanh},
      {"gt", compares<kGreater>},
      {"hardsigmoid", hardsigmoid},
      {"hardswish", same<kHardSwish>},
      {"isfinite", isfinite},
      {"isinf", isinf},
      {"isnan", isnan},
      {"le", compares<kLessOrEqual>},
      {"leaky_relu", leaky_relu},
      {"lerp", lerp},
      {"log", same<kLog>},
      {"log10", log10},
      {"log1p", log1p},
      {"log2", log2},
      {"logical_and", logical<kAnd>},
      {"logical_not", logical<kNot>},
      {"logical_or", logical<kOr>},
      {"logical_xor", logical<kXor>},
      {"lt", compares<kLess>},
      {"maximum", same<kMax>},
      {"minimum", same<kMin>},
      {"mish", mish},
      {"mul", same<kMul>},
      {"ne", ne},
      {"neg", same<kNeg>},
      {"pow", same<kPow>},
      {"prelu", same<kPRelu>},
      {"reciprocal", same<kReciprocal>},
      {"relu", same<kRelu>},
      {"remainder", remainder},
      {"round", same<kRound>},
      {"rsqrt", rsqrt},
      {"selu", same<kSelu>},
      {"sigmoid", same<kSigmoid>},
      {"sign", same<kSign>},
      {"silu", silu},
      {"sin", same<kSin>},
      {"sinh", same<kSinh>},
      {"softplus", softplus},
      {"sqrt", same<kSqrt>},
      {"square", square},
      {"sub", same<kSub>},
      {"tan", same<kTan>},
      {"tanh", same<kTanh>},
      {"trunc", trunc},
      {"where", where},
  };
  return table;
}

}  // namespace mica::onnx

// Arithmetic, elementary functions, bits and casts.
#include "mica/core/check.h"
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/compositions.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

template <Tensor (*f)(const Tensor&)>
Results unary(const Call& c) {
  return f(c[0]);
}
template <Tensor (*f)(const Tensor&, const Tensor&)>
Results binary(const Call& c) {
  return f(c[0], second(c));
}
/// Of any number of tensors.
template <Tensor (*f)(const Tensor&, const Tensor&)>
Results folded(const Call& c) {
  Tensor result = c[0];
  for (int i = 1; i < c.inputs(); ++i) result = f(result, c[i]);
  return result;
}

/// Of integers towards zero.
Results divide(const Call& c) {
  const Tensor a = c[0];
  const Tensor b = second(c);
  if (is_floating(a.dtype())) return div(a, b);
  const Tensor q = floor_divide(a, b);
  if (is_unsigned(a.dtype())) return q;
  const Tensor inexact = ne(mul(q, b), a);
  const Tensor negative = lt(q, 0);
  return add(q, cast(logical_and(inexact, negative), q.dtype()));
}

Results modulo(const Call& c) {
  const Tensor a = c[0];
  const Tensor b = second(c);
  if (c.integer("fmod", 0) == 0) return remainder(a, b);
  return fmod(a, b);
}

/// In the dtype of the base.
Results power(const Call& c) {
  const Tensor a = c[0];
  const Tensor b = second(c);
  if (a.dtype() == b.dtype()) return pow(a, b);
  if (is_floating(a.dtype())) return pow(a, cast(b, a.dtype()));
  const DType wide = is_floating(b.dtype()) ? DType::f64 : DType::i64;
  return cast(pow(cast(a, wide), cast(b, wide)), a.dtype());
}

Results mean_of(const Call& c) {
  Results sum = folded<add>(c);
  return div(sum[0].tensor(), c.inputs());
}

Results bit_shift(const Call& c) {
  return c.text("direction") == "LEFT" ? left_shift(c[0], c[1]) : right_shift(c[0], c[1]);
}

/// The dtype that version 1 names by a word.
DType target(const Call& c) {
  const AttributeProto* const to = c.find("to");
  c.check(to != nullptr, "attribute 'to' is missing");
  if (to->type != AttributeType::string) return c.dtype(to->i);
  for (const auto& [word, number] : {std::pair<const char*, int>{"FLOAT", 1},
                                     {"UINT8", 2},
                                     {"INT8", 3},
                                     {"UINT16", 4},
                                     {"INT16", 5},
                                     {"INT32", 6},
                                     {"INT64", 7},
                                     {"BOOL", 9},
                                     {"FLOAT16", 10},
                                     {"DOUBLE", 11},
                                     {"UINT32", 12},
                                     {"UINT64", 13}})
    if (to->s == word) return c.dtype(number);
  c.fail(fmt::format("casts to '{}'", to->s));
}

Results cast_like(const Call& c) { return cast(c[0], c[1].dtype()); }

/// The same bits as another dtype of the size.
Results bit_cast_of(const Call& c) {
  const DType to = target(c);
  const Tensor x = contiguous(c[0]);
  c.check(size_of(to) == size_of(x.dtype()), "BitCast from {} to {}", x.dtype(), to);
  mica::check<Unsupported>(!x.is_traced(), "BitCast reads bytes, which a captured graph has not");
  const Tensor on_host = mica::to(x, Device());
  return mica::to(tensor_from_bytes(on_host.data(), x.shape(), {to}), x.device());
}

Results clip(const Call& c) {
  const Tensor x = c[0];
  if (c.opset() < 11) {
    const auto bound = [&](const char* name) -> std::optional<Number> {
      return c.has(name) ? std::optional<Number>(c.number(name, 0)) : std::nullopt;
    };
    return clamp(x, bound("min"), bound("max"));
  }
  const auto is_known = [&](int i) { return !c.has(i) || c.value(i).known; };
  if (is_known(1) && is_known(2)) {
    const auto bound = [&](int i) -> std::optional<Number> {
      return c.has(i) ? std::optional<Number>(c.value(i).value.tensor().item_number())
                      : std::nullopt;
    };
    if (!c.has(1) && !c.has(2)) return x;
    return clamp(x, bound(1), bound(2));
  }
  Tensor y = x;
  if (c.has(1)) y = maximum(y, c[1]);
  if (c.has(2)) y = minimum(y, c[2]);
  return y;
}

}  // namespace

Operators math_operators() {
  return {
      {"Add", binary<add>},
      {"Sub", binary<sub>},
      {"Mul", binary<mul>},
      {"Div", divide},
      {"Mod", modulo},
      {"Pow", power},
      {"Sum", folded<add>},
      {"Mean", mean_of},
      {"Max", folded<maximum>},
      {"Min", folded<minimum>},
      {"Neg", unary<neg>},
      {"Abs", unary<abs>},
      {"Sign", unary<sign>},
      {"Reciprocal", unary<reciprocal>},
      {"Sqrt", unary<sqrt>},
      {"Exp", unary<exp>},
      {"Log", unary<log>},
      {"Floor", unary<floor>},
      {"Ceil", unary<ceil>},
      {"Round", unary<round>},
      {"Erf", unary<erf>},
      {"Sin", unary<sin>},
      {"Cos", unary<cos>},
      {"Tan", unary<tan>},
      {"Asin", unary<asin>},
      {"Acos", unary<acos>},
      {"Atan", unary<atan>},
      {"Sinh", unary<sinh>},
      {"Cosh", unary<cosh>},
      {"Asinh", unary<asinh>},
      {"Acosh", unary<acosh>},
      {"Atanh", unary<atanh>},
      {"BitShift", bit_shift},
      {"BitwiseAnd", binary<bitwise_and>},
      {"BitwiseOr", binary<bitwise_or>},
      {"BitwiseXor", binary<bitwise_xor>},
      {"BitwiseNot", unary<bitwise_not>},
      {"Cast", [](const Call& c) -> Results { return cast(c[0], target(c)); }},
      {"CastLike", cast_like},
      {"BitCast", bit_cast_of},
      {"Clip", clip},
      {"Identity", [](const Call& c) -> Results { return c.value(0).value; }},
  };
}

}  // namespace mica::onnx

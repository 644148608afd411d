// Made from what rooms say of their functions by mica_test_unit, which holds it to that:
// MICA_UPDATE=1 mica_test_unit --gtest_filter='TensorMethods.*' writes it anew.
#include "mica/ops/method.h"

namespace mica {

Tensor Tensor::add(const Tensor& other) const {
  static const Method<Tensor> method("add", 0);
  return method(*this, other);
}
Tensor Tensor::add(Number other) const {
  static const Method<Tensor> method("add", 1);
  return method(*this, other);
}
Tensor Tensor::sub(const Tensor& other) const {
  static const Method<Tensor> method("sub", 0);
  return method(*this, other);
}
Tensor Tensor::sub(Number other) const {
  static const Method<Tensor> method("sub", 1);
  return method(*this, other);
}
Tensor Tensor::mul(const Tensor& other) const {
  static const Method<Tensor> method("mul", 0);
  return method(*this, other);
}
Tensor Tensor::mul(Number other) const {
  static const Method<Tensor> method("mul", 1);
  return method(*this, other);
}
Tensor Tensor::div(const Tensor& other) const {
  static const Method<Tensor> method("div", 0);
  return method(*this, other);
}
Tensor Tensor::div(Number other) const {
  static const Method<Tensor> method("div", 1);
  return method(*this, other);
}
Tensor Tensor::floor_divide(const Tensor& other) const {
  static const Method<Tensor> method("floor_divide", 0);
  return method(*this, other);
}
const Tensor& Tensor::floor_divide_(const Tensor& other) const {
  return overwrite(*this, floor_divide(other));
}
Tensor Tensor::floor_divide(Number other) const {
  static const Method<Tensor> method("floor_divide", 1);
  return method(*this, other);
}
const Tensor& Tensor::floor_divide_(Number other) const {
  return overwrite(*this, floor_divide(other));
}
Tensor Tensor::remainder(const Tensor& other) const {
  static const Method<Tensor> method("remainder", 0);
  return method(*this, other);
}
const Tensor& Tensor::remainder_(const Tensor& other) const {
  return overwrite(*this, remainder(other));
}
Tensor Tensor::remainder(Number other) const {
  static const Method<Tensor> method("remainder", 1);
  return method(*this, other);
}
const Tensor& Tensor::remainder_(Number other) const { return overwrite(*this, remainder(other)); }
Tensor Tensor::minimum(const Tensor& other) const {
  static const Method<Tensor> method("minimum", 0);
  return method(*this, other);
}
Tensor Tensor::minimum(Number other) const {
  static const Method<Tensor> method("minimum", 1);
  return method(*this, other);
}
Tensor Tensor::maximum(const Tensor& other) const {
  static const Method<Tensor> method("maximum", 0);
  return method(*this, other);
}
Tensor Tensor::maximum(Number other) const {
  static const Method<Tensor> method("maximum", 1);
  return method(*this, other);
}
Tensor Tensor::pow(const Tensor& exponent) const {
  static const Method<Tensor> method("pow", 0);
  return method(*this, exponent);
}
const Tensor& Tensor::pow_(const Tensor& exponent) const { return overwrite(*this, pow(exponent)); }
Tensor Tensor::pow(Number exponent) const {
  static const Method<Tensor> method("pow", 1);
  return method(*this, exponent);
}
const Tensor& Tensor::pow_(Number exponent) const { return overwrite(*this, pow(exponent)); }
Tensor Tensor::atan2(const Tensor& other) const {
  static const Method<Tensor> method("atan2", 0);
  return method(*this, other);
}
Tensor Tensor::lerp(const Tensor& end, const Tensor& weight) const {
  static const Method<Tensor> method("lerp", 0);
  return method(*this, end, weight);
}
const Tensor& Tensor::lerp_(const Tensor& end, const Tensor& weight) const {
  return overwrite(*this, lerp(end, weight));
}
Tensor Tensor::lerp(const Tensor& end, Number weight) const {
  static const Method<Tensor> method("lerp", 1);
  return method(*this, end, weight);
}
const Tensor& Tensor::lerp_(const Tensor& end, Number weight) const {
  return overwrite(*this, lerp(end, weight));
}
Tensor Tensor::neg() const {
  static const Method<Tensor> method("neg", 0);
  return method(*this);
}
const Tensor& Tensor::neg_() const { return overwrite(*this, neg()); }
Tensor Tensor::relu() const {
  static const Method<Tensor> method("relu", 0);
  return method(*this);
}
const Tensor& Tensor::relu_() const { return overwrite(*this, relu()); }
Tensor Tensor::fmod(const Tensor& other) const {
  static const Method<Tensor> method("fmod", 0);
  return method(*this, other);
}
const Tensor& Tensor::fmod_(const Tensor& other) const { return overwrite(*this, fmod(other)); }
Tensor Tensor::fmod(Number other) const {
  static const Method<Tensor> method("fmod", 1);
  return method(*this, other);
}
const Tensor& Tensor::fmod_(Number other) const { return overwrite(*this, fmod(other)); }
Tensor Tensor::copysign(const Tensor& other) const {
  static const Method<Tensor> method("copysign", 0);
  return method(*this, other);
}
const Tensor& Tensor::copysign_(const Tensor& other) const {
  return overwrite(*this, copysign(other));
}
Tensor Tensor::copysign(Number other) const {
  static const Method<Tensor> method("copysign", 1);
  return method(*this, other);
}
const Tensor& Tensor::copysign_(Number other) const { return overwrite(*this, copysign(other)); }
Tensor Tensor::hypot(const Tensor& other) const {
  static const Method<Tensor> method("hypot", 0);
  return method(*this, other);
}
Tensor Tensor::logaddexp(const Tensor& other) const {
  static const Method<Tensor> method("logaddexp", 0);
  return method(*this, other);
}
Tensor Tensor::xlogy(const Tensor& other) const {
  static const Method<Tensor> method("xlogy", 0);
  return method(*this, other);
}
Tensor Tensor::addcmul(const Tensor& tensor1, const Tensor& tensor2, Number value) const {
  static const Method<Tensor> method("addcmul", 0);
  return method(*this, tensor1, tensor2, value);
}
const Tensor& Tensor::addcmul_(const Tensor& tensor1, const Tensor& tensor2, Number value) const {
  return overwrite(*this, addcmul(tensor1, tensor2, value));
}
Tensor Tensor::addcdiv(const Tensor& tensor1, const Tensor& tensor2, Number value) const {
  static const Method<Tensor> method("addcdiv", 0);
  return method(*this, tensor1, tensor2, value);
}
const Tensor& Tensor::addcdiv_(const Tensor& tensor1, const Tensor& tensor2, Number value) const {
  return overwrite(*this, addcdiv(tensor1, tensor2, value));
}
Tensor Tensor::conj() const {
  static const Method<Tensor> method("conj", 0);
  return method(*this);
}
Tensor Tensor::angle() const {
  static const Method<Tensor> method("angle", 0);
  return method(*this);
}
Tensor Tensor::adjoint() const {
  static const Method<Tensor> method("adjoint", 0);
  return method(*this);
}
Tensor Tensor::isreal() const {
  static const Method<Tensor> method("isreal", 0);
  return method(*this);
}
Tensor Tensor::where(const Tensor& condition, const Tensor& other) const {
  static const Method<Tensor> method("where", 0);
  return method(*this, condition, other);
}
Tensor Tensor::where(const Tensor& condition, Number other) const {
  static const Method<Tensor> method("where", 1);
  return method(*this, condition, other);
}
Tensor Tensor::clamp(std::optional<Number> min, std::optional<Number> max) const {
  static const Method<Tensor> method("clamp", 0);
  return method(*this, min, max);
}
const Tensor& Tensor::clamp_(std::optional<Number> min, std::optional<Number> max) const {
  return overwrite(*this, clamp(min, max));
}
Tensor Tensor::clamp(const Tensor& min, const Tensor& max) const {
  static const Method<Tensor> method("clamp", 1);
  return method(*this, min, max);
}
const Tensor& Tensor::clamp_(const Tensor& min, const Tensor& max) const {
  return overwrite(*this, clamp(min, max));
}
Tensor Tensor::clamp_min(Number min) const {
  static const Method<Tensor> method("clamp_min", 0);
  return method(*this, min);
}
const Tensor& Tensor::clamp_min_(Number min) const { return overwrite(*this, clamp_min(min)); }
Tensor Tensor::clamp_min(const Tensor& min) const {
  static const Method<Tensor> method("clamp_min", 1);
  return method(*this, min);
}
const Tensor& Tensor::clamp_min_(const Tensor& min) const {
  return overwrite(*this, clamp_min(min));
}
Tensor Tensor::clamp_max(Number max) const {
  static const Method<Tensor> method("clamp_max", 0);
  return method(*this, max);
}
const Tensor& Tensor::clamp_max_(Number max) const { return overwrite(*this, clamp_max(max)); }
Tensor Tensor::clamp_max(const Tensor& max) const {
  static const Method<Tensor> method("clamp_max", 1);
  return method(*this, max);
}
const Tensor& Tensor::clamp_max_(const Tensor& max) const {
  return overwrite(*this, clamp_max(max));
}
Tensor Tensor::nan_to_num(Number nan, std::optional<Number> posinf,
                          std::optional<Number> neginf) const {
  static const Method<Tensor> method("nan_to_num", 0);
  return method(*this, nan, posinf, neginf);
}
const Tensor& Tensor::nan_to_num_(Number nan, std::optional<Number> posinf,
                                  std::optional<Number> neginf) const {
  return overwrite(*this, nan_to_num(nan, posinf, neginf));
}
Tensor Tensor::exp() const {
  static const Method<Tensor> method("exp", 0);
  return method(*this);
}
const Tensor& Tensor::exp_() const { return overwrite(*this, exp()); }
Tensor Tensor::exp2() const {
  static const Method<Tensor> method("exp2", 0);
  return method(*this);
}
Tensor Tensor::expm1() const {
  static const Method<Tensor> method("expm1", 0);
  return method(*this);
}
Tensor Tensor::log() const {
  static const Method<Tensor> method("log", 0);
  return method(*this);
}
const Tensor& Tensor::log_() const { return overwrite(*this, log()); }
Tensor Tensor::log2() const {
  static const Method<Tensor> method("log2", 0);
  return method(*this);
}
Tensor Tensor::log10() const {
  static const Method<Tensor> method("log10", 0);
  return method(*this);
}
Tensor Tensor::log1p() const {
  static const Method<Tensor> method("log1p", 0);
  return method(*this);
}
Tensor Tensor::sqrt() const {
  static const Method<Tensor> method("sqrt", 0);
  return method(*this);
}
const Tensor& Tensor::sqrt_() const { return overwrite(*this, sqrt()); }
Tensor Tensor::erf() const {
  static const Method<Tensor> method("erf", 0);
  return method(*this);
}
const Tensor& Tensor::erf_() const { return overwrite(*this, erf()); }
Tensor Tensor::erfc() const {
  static const Method<Tensor> method("erfc", 0);
  return method(*this);
}
const Tensor& Tensor::erfc_() const { return overwrite(*this, erfc()); }
Tensor Tensor::rsqrt() const {
  static const Method<Tensor> method("rsqrt", 0);
  return method(*this);
}
const Tensor& Tensor::rsqrt_() const { return overwrite(*this, rsqrt()); }
Tensor Tensor::reciprocal() const {
  static const Method<Tensor> method("reciprocal", 0);
  return method(*this);
}
const Tensor& Tensor::reciprocal_() const { return overwrite(*this, reciprocal()); }
Tensor Tensor::sigmoid() const {
  static const Method<Tensor> method("sigmoid", 0);
  return method(*this);
}
const Tensor& Tensor::sigmoid_() const { return overwrite(*this, sigmoid()); }
Tensor Tensor::sin() const {
  static const Method<Tensor> method("sin", 0);
  return method(*this);
}
const Tensor& Tensor::sin_() const { return overwrite(*this, sin()); }
Tensor Tensor::cos() const {
  static const Method<Tensor> method("cos", 0);
  return method(*this);
}
const Tensor& Tensor::cos_() const { return overwrite(*this, cos()); }
Tensor Tensor::tan() const {
  static const Method<Tensor> method("tan", 0);
  return method(*this);
}
Tensor Tensor::asin() const {
  static const Method<Tensor> method("asin", 0);
  return method(*this);
}
Tensor Tensor::acos() const {
  static const Method<Tensor> method("acos", 0);
  return method(*this);
}
Tensor Tensor::atan() const {
  static const Method<Tensor> method("atan", 0);
  return method(*this);
}
Tensor Tensor::sinh() const {
  static const Method<Tensor> method("sinh", 0);
  return method(*this);
}
Tensor Tensor::cosh() const {
  static const Method<Tensor> method("cosh", 0);
  return method(*this);
}
Tensor Tensor::asinh() const {
  static const Method<Tensor> method("asinh", 0);
  return method(*this);
}
Tensor Tensor::acosh() const {
  static const Method<Tensor> method("acosh", 0);
  return method(*this);
}
Tensor Tensor::atanh() const {
  static const Method<Tensor> method("atanh", 0);
  return method(*this);
}
Tensor Tensor::tanh() const {
  static const Method<Tensor> method("tanh", 0);
  return method(*this);
}
const Tensor& Tensor::tanh_() const { return overwrite(*this, tanh()); }
Tensor Tensor::abs() const {
  static const Method<Tensor> method("abs", 0);
  return method(*this);
}
const Tensor& Tensor::abs_() const { return overwrite(*this, abs()); }
Tensor Tensor::square() const {
  static const Method<Tensor> method("square", 0);
  return method(*this);
}
const Tensor& Tensor::square_() const { return overwrite(*this, square()); }
Tensor Tensor::sign() const {
  static const Method<Tensor> method("sign", 0);
  return method(*this);
}
const Tensor& Tensor::sign_() const { return overwrite(*this, sign()); }
Tensor Tensor::floor() const {
  static const Method<Tensor> method("floor", 0);
  return method(*this);
}
const Tensor& Tensor::floor_() const { return overwrite(*this, floor()); }
Tensor Tensor::ceil() const {
  static const Method<Tensor> method("ceil", 0);
  return method(*this);
}
const Tensor& Tensor::ceil_() const { return overwrite(*this, ceil()); }
Tensor Tensor::trunc() const {
  static const Method<Tensor> method("trunc", 0);
  return method(*this);
}
const Tensor& Tensor::trunc_() const { return overwrite(*this, trunc()); }
Tensor Tensor::round() const {
  static const Method<Tensor> method("round", 0);
  return method(*this);
}
const Tensor& Tensor::round_() const { return overwrite(*this, round()); }
Tensor Tensor::eq(const Tensor& other) const {
  static const Method<Tensor> method("eq", 0);
  return method(*this, other);
}
Tensor Tensor::eq(Number other) const {
  static const Method<Tensor> method("eq", 1);
  return method(*this, other);
}
Tensor Tensor::ne(const Tensor& other) const {
  static const Method<Tensor> method("ne", 0);
  return method(*this, other);
}
Tensor Tensor::ne(Number other) const {
  static const Method<Tensor> method("ne", 1);
  return method(*this, other);
}
Tensor Tensor::lt(const Tensor& other) const {
  static const Method<Tensor> method("lt", 0);
  return method(*this, other);
}
Tensor Tensor::lt(Number other) const {
  static const Method<Tensor> method("lt", 1);
  return method(*this, other);
}
Tensor Tensor::le(const Tensor& other) const {
  static const Method<Tensor> method("le", 0);
  return method(*this, other);
}
Tensor Tensor::le(Number other) const {
  static const Method<Tensor> method("le", 1);
  return method(*this, other);
}
Tensor Tensor::gt(const Tensor& other) const {
  static const Method<Tensor> method("gt", 0);
  return method(*this, other);
}
Tensor Tensor::gt(Number other) const {
  static const Method<Tensor> method("gt", 1);
  return method(*this, other);
}
Tensor Tensor::ge(const Tensor& other) const {
  static const Method<Tensor> method("ge", 0);
  return method(*this, other);
}
Tensor Tensor::ge(Number other) const {
  static const Method<Tensor> method("ge", 1);
  return method(*this, other);
}
Tensor Tensor::logical_and(const Tensor& other) const {
  static const Method<Tensor> method("logical_and", 0);
  return method(*this, other);
}
Tensor Tensor::logical_or(const Tensor& other) const {
  static const Method<Tensor> method("logical_or", 0);
  return method(*this, other);
}
Tensor Tensor::logical_xor(const Tensor& other) const {
  static const Method<Tensor> method("logical_xor", 0);
  return method(*this, other);
}
Tensor Tensor::bitwise_and(const Tensor& other) const {
  static const Method<Tensor> method("bitwise_and", 0);
  return method(*this, other);
}
Tensor Tensor::bitwise_or(const Tensor& other) const {
  static const Method<Tensor> method("bitwise_or", 0);
  return method(*this, other);
}
Tensor Tensor::bitwise_xor(const Tensor& other) const {
  static const Method<Tensor> method("bitwise_xor", 0);
  return method(*this, other);
}
Tensor Tensor::bitwise_left_shift(const Tensor& other) const {
  static const Method<Tensor> method("bitwise_left_shift", 0);
  return method(*this, other);
}
Tensor Tensor::bitwise_right_shift(const Tensor& other) const {
  static const Method<Tensor> method("bitwise_right_shift", 0);
  return method(*this, other);
}
Tensor Tensor::logical_not() const {
  static const Method<Tensor> method("logical_not", 0);
  return method(*this);
}
Tensor Tensor::bitwise_not() const {
  static const Method<Tensor> method("bitwise_not", 0);
  return method(*this);
}
Tensor Tensor::isnan() const {
  static const Method<Tensor> method("isnan", 0);
  return method(*this);
}
Tensor Tensor::isinf() const {
  static const Method<Tensor> method("isinf", 0);
  return method(*this);
}
Tensor Tensor::isfinite() const {
  static const Method<Tensor> method("isfinite", 0);
  return method(*this);
}
Tensor Tensor::signbit() const {
  static const Method<Tensor> method("signbit", 0);
  return method(*this);
}
Tensor Tensor::isclose(const Tensor& other, Number rtol, Number atol, bool equal_nan) const {
  static const Method<Tensor> method("isclose", 0);
  return method(*this, other, rtol, atol, equal_nan);
}
bool Tensor::allclose(const Tensor& other, Number rtol, Number atol, bool equal_nan) const {
  static const Method<bool> method("allclose", 0);
  return method(*this, other, rtol, atol, equal_nan);
}
bool Tensor::equal(const Tensor& other) const {
  static const Method<bool> method("equal", 0);
  return method(*this, other);
}
Tensor Tensor::sum(const Dims& dim, bool keepdim) const {
  static const Method<Tensor> method("sum", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::mean(const Dims& dim, bool keepdim) const {
  static const Method<Tensor> method("mean", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::prod(const Dims& dim, bool keepdim) const {
  static const Method<Tensor> method("prod", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::any(const Dims& dim, bool keepdim) const {
  static const Method<Tensor> method("any", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::all(const Dims& dim, bool keepdim) const {
  static const Method<Tensor> method("all", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::count_nonzero(const Dims& dim, bool keepdim) const {
  static const Method<Tensor> method("count_nonzero", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::amax(const Dims& dim, bool keepdim) const {
  static const Method<Tensor> method("amax", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::amin(const Dims& dim, bool keepdim) const {
  static const Method<Tensor> method("amin", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::logsumexp(const Dims& dim, bool keepdim) const {
  static const Method<Tensor> method("logsumexp", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::argmax(std::optional<int64_t> dim, bool keepdim) const {
  static const Method<Tensor> method("argmax", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::argmin(std::optional<int64_t> dim, bool keepdim) const {
  static const Method<Tensor> method("argmin", 0);
  return method(*this, dim, keepdim);
}
Tensor Tensor::max() const {
  static const Method<Tensor> method("max", 0);
  return method(*this);
}
Sorted Tensor::max(int64_t dim, bool keepdim) const {
  static const Method<Sorted> method("max", 1);
  return method(*this, dim, keepdim);
}
Tensor Tensor::max(const Tensor& other) const {
  static const Method<Tensor> method("max", 2);
  return method(*this, other);
}
Tensor Tensor::min() const {
  static const Method<Tensor> method("min", 0);
  return method(*this);
}
Sorted Tensor::min(int64_t dim, bool keepdim) const {
  static const Method<Sorted> method("min", 1);
  return method(*this, dim, keepdim);
}
Tensor Tensor::min(const Tensor& other) const {
  static const Method<Tensor> method("min", 2);
  return method(*this, other);
}
Tensor Tensor::var(const Dims& dim, Number correction, bool keepdim) const {
  static const Method<Tensor> method("var", 0);
  return method(*this, dim, correction, keepdim);
}
Tensor Tensor::std(const Dims& dim, Number correction, bool keepdim) const {
  static const Method<Tensor> method("std", 0);
  return method(*this, dim, correction, keepdim);
}
Tensor Tensor::norm(Number p, const Dims& dim, bool keepdim) const {
  static const Method<Tensor> method("norm", 0);
  return method(*this, p, dim, keepdim);
}
Tensor Tensor::cumsum(int64_t dim, bool exclusive, bool reverse) const {
  static const Method<Tensor> method("cumsum", 0);
  return method(*this, dim, exclusive, reverse);
}
Tensor Tensor::cumprod(int64_t dim, bool exclusive, bool reverse) const {
  static const Method<Tensor> method("cumprod", 0);
  return method(*this, dim, exclusive, reverse);
}
Tensor Tensor::diff(int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append) const {
  static const Method<Tensor> method("diff", 0);
  return method(*this, n, dim, prepend, append);
}
Sorted Tensor::sort(int64_t dim, bool descending) const {
  static const Method<Sorted> method("sort", 0);
  return method(*this, dim, descending);
}
Tensor Tensor::argsort(int64_t dim, bool descending) const {
  static const Method<Tensor> method("argsort", 0);
  return method(*this, dim, descending);
}
Sorted Tensor::topk(int64_t k, int64_t dim, bool largest, bool sorted) const {
  static const Method<Sorted> method("topk", 0);
  return method(*this, k, dim, largest, sorted);
}
Tensor Tensor::median() const {
  static const Method<Tensor> method("median", 0);
  return method(*this);
}
Sorted Tensor::median(int64_t dim, bool keepdim) const {
  static const Method<Sorted> method("median", 1);
  return method(*this, dim, keepdim);
}
Tensor Tensor::matmul(const Tensor& other) const {
  static const Method<Tensor> method("matmul", 0);
  return method(*this, other);
}
Tensor Tensor::outer(const Tensor& vec2) const {
  static const Method<Tensor> method("outer", 0);
  return method(*this, vec2);
}
Tensor Tensor::inner(const Tensor& other) const {
  static const Method<Tensor> method("inner", 0);
  return method(*this, other);
}
Tensor Tensor::dot(const Tensor& tensor) const {
  static const Method<Tensor> method("dot", 0);
  return method(*this, tensor);
}
Tensor Tensor::mm(const Tensor& mat2) const {
  static const Method<Tensor> method("mm", 0);
  return method(*this, mat2);
}
Tensor Tensor::bmm(const Tensor& mat2) const {
  static const Method<Tensor> method("bmm", 0);
  return method(*this, mat2);
}
Tensor Tensor::mv(const Tensor& vec) const {
  static const Method<Tensor> method("mv", 0);
  return method(*this, vec);
}
Tensor Tensor::addmm(const Tensor& mat1, const Tensor& mat2, Number beta, Number alpha) const {
  static const Method<Tensor> method("addmm", 0);
  return method(*this, mat1, mat2, beta, alpha);
}
Tensor Tensor::baddbmm(const Tensor& batch1, const Tensor& batch2, Number beta,
                       Number alpha) const {
  static const Method<Tensor> method("baddbmm", 0);
  return method(*this, batch1, batch2, beta, alpha);
}
Tensor Tensor::tril(int64_t diagonal) const {
  static const Method<Tensor> method("tril", 0);
  return method(*this, diagonal);
}
const Tensor& Tensor::tril_(int64_t diagonal) const { return overwrite(*this, tril(diagonal)); }
Tensor Tensor::triu(int64_t diagonal) const {
  static const Method<Tensor> method("triu", 0);
  return method(*this, diagonal);
}
const Tensor& Tensor::triu_(int64_t diagonal) const { return overwrite(*this, triu(diagonal)); }
Tensor Tensor::softmax(int64_t dim) const {
  static const Method<Tensor> method("softmax", 0);
  return method(*this, dim);
}
Tensor Tensor::log_softmax(int64_t dim) const {
  static const Method<Tensor> method("log_softmax", 0);
  return method(*this, dim);
}
Tensor Tensor::reshape(const Dims& shape) const {
  static const Method<Tensor> method("reshape", 0);
  return method(*this, shape);
}
Tensor Tensor::permute(const Dims& dims) const {
  static const Method<Tensor> method("permute", 0);
  return method(*this, dims);
}
Tensor Tensor::expand(const Dims& size) const {
  static const Method<Tensor> method("expand", 0);
  return method(*this, size);
}
Tensor Tensor::broadcast_to(const Dims& size) const {
  static const Method<Tensor> method("broadcast_to", 0);
  return method(*this, size);
}
Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim) const {
  static const Method<Tensor> method("flatten", 0);
  return method(*this, start_dim, end_dim);
}
Tensor Tensor::ravel() const {
  static const Method<Tensor> method("ravel", 0);
  return method(*this);
}
Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const {
  static const Method<Tensor> method("transpose", 0);
  return method(*this, dim0, dim1);
}
Tensor Tensor::swapaxes(int64_t axis0, int64_t axis1) const {
  static const Method<Tensor> method("swapaxes", 0);
  return method(*this, axis0, axis1);
}
Tensor Tensor::movedim(const Dims& source, const Dims& destination) const {
  static const Method<Tensor> method("movedim", 0);
  return method(*this, source, destination);
}
Tensor Tensor::squeeze(const Dims& dim) const {
  static const Method<Tensor> method("squeeze", 0);
  return method(*this, dim);
}
Tensor Tensor::unsqueeze(int64_t dim) const {
  static const Method<Tensor> method("unsqueeze", 0);
  return method(*this, dim);
}
Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const {
  static const Method<Tensor> method("narrow", 0);
  return method(*this, dim, start, length);
}
Tensor Tensor::select(int64_t dim, int64_t index) const {
  static const Method<Tensor> method("select", 0);
  return method(*this, dim, index);
}
Tensor Tensor::diagonal(int64_t offset, int64_t dim1, int64_t dim2) const {
  static const Method<Tensor> method("diagonal", 0);
  return method(*this, offset, dim1, dim2);
}
Tensor Tensor::t() const {
  static const Method<Tensor> method("t", 0);
  return method(*this);
}
Tensor Tensor::trace() const {
  static const Method<Tensor> method("trace", 0);
  return method(*this);
}
Tensor Tensor::unflatten(int64_t dim, const Dims& sizes) const {
  static const Method<Tensor> method("unflatten", 0);
  return method(*this, dim, sizes);
}
Tensor Tensor::diag(int64_t diagonal) const {
  static const Method<Tensor> method("diag", 0);
  return method(*this, diagonal);
}
Tensors Tensor::split(int64_t split_size, int64_t dim) const {
  static const Method<Tensors> method("split", 0);
  return method(*this, split_size, dim);
}
Tensors Tensor::split(const Dims& split_size, int64_t dim) const {
  static const Method<Tensors> method("split", 1);
  return method(*this, split_size, dim);
}
Tensors Tensor::chunk(int64_t chunks, int64_t dim) const {
  static const Method<Tensors> method("chunk", 0);
  return method(*this, chunks, dim);
}
Tensors Tensor::unbind(int64_t dim) const {
  static const Method<Tensors> method("unbind", 0);
  return method(*this, dim);
}
Tensor Tensor::tile(const Dims& dims) const {
  static const Method<Tensor> method("tile", 0);
  return method(*this, dims);
}
Tensor Tensor::repeat(const Dims& repeats) const {
  static const Method<Tensor> method("repeat", 0);
  return method(*this, repeats);
}
Tensor Tensor::repeat_interleave(int64_t repeats, std::optional<int64_t> dim) const {
  static const Method<Tensor> method("repeat_interleave", 0);
  return method(*this, repeats, dim);
}
Tensor Tensor::flip(const Dims& dims) const {
  static const Method<Tensor> method("flip", 0);
  return method(*this, dims);
}
Tensor Tensor::fliplr() const {
  static const Method<Tensor> method("fliplr", 0);
  return method(*this);
}
Tensor Tensor::flipud() const {
  static const Method<Tensor> method("flipud", 0);
  return method(*this);
}
Tensor Tensor::roll(const Dims& shifts, const Dims& dims) const {
  static const Method<Tensor> method("roll", 0);
  return method(*this, shifts, dims);
}
Tensor Tensor::gather(int64_t dim, const Tensor& index) const {
  static const Method<Tensor> method("gather", 0);
  return method(*this, dim, index);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, const Tensor& src) const {
  static const Method<Tensor> method("scatter", 0);
  return method(*this, dim, index, src);
}
const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const Tensor& src) const {
  return overwrite(*this, scatter(dim, index, src));
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, Number value) const {
  static const Method<Tensor> method("scatter", 1);
  return method(*this, dim, index, value);
}
const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, Number value) const {
  return overwrite(*this, scatter(dim, index, value));
}
Tensor Tensor::scatter_add(int64_t dim, const Tensor& index, const Tensor& src) const {
  static const Method<Tensor> method("scatter_add", 0);
  return method(*this, dim, index, src);
}
const Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& src) const {
  return overwrite(*this, scatter_add(dim, index, src));
}
Tensor Tensor::index_select(int64_t dim, const Tensor& index) const {
  static const Method<Tensor> method("index_select", 0);
  return method(*this, dim, index);
}
Tensor Tensor::index_add(int64_t dim, const Tensor& index, const Tensor& source) const {
  static const Method<Tensor> method("index_add", 0);
  return method(*this, dim, index, source);
}
const Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& source) const {
  return overwrite(*this, index_add(dim, index, source));
}
Tensor Tensor::index_copy(int64_t dim, const Tensor& index, const Tensor& source) const {
  static const Method<Tensor> method("index_copy", 0);
  return method(*this, dim, index, source);
}
const Tensor& Tensor::index_copy_(int64_t dim, const Tensor& index, const Tensor& source) const {
  return overwrite(*this, index_copy(dim, index, source));
}
Tensor Tensor::index_fill(int64_t dim, const Tensor& index, Number value) const {
  static const Method<Tensor> method("index_fill", 0);
  return method(*this, dim, index, value);
}
const Tensor& Tensor::index_fill_(int64_t dim, const Tensor& index, Number value) const {
  return overwrite(*this, index_fill(dim, index, value));
}
Tensor Tensor::take_along_dim(const Tensor& indices, int64_t dim) const {
  static const Method<Tensor> method("take_along_dim", 0);
  return method(*this, indices, dim);
}
Tensor Tensor::nonzero() const {
  static const Method<Tensor> method("nonzero", 0);
  return method(*this);
}
Tensor Tensor::masked_fill(const Tensor& mask, const Tensor& value) const {
  static const Method<Tensor> method("masked_fill", 0);
  return method(*this, mask, value);
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, const Tensor& value) const {
  return overwrite(*this, masked_fill(mask, value));
}
Tensor Tensor::masked_fill(const Tensor& mask, Number value) const {
  static const Method<Tensor> method("masked_fill", 1);
  return method(*this, mask, value);
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, Number value) const {
  return overwrite(*this, masked_fill(mask, value));
}
Tensor Tensor::masked_select(const Tensor& mask) const {
  static const Method<Tensor> method("masked_select", 0);
  return method(*this, mask);
}
Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& source) const {
  static const Method<Tensor> method("masked_scatter", 0);
  return method(*this, mask, source);
}
const Tensor& Tensor::masked_scatter_(const Tensor& mask, const Tensor& source) const {
  return overwrite(*this, masked_scatter(mask, source));
}
Tensor Tensor::multinomial(int64_t num_samples, bool replacement) const {
  static const Method<Tensor> method("multinomial", 0);
  return method(*this, num_samples, replacement);
}

}  // namespace mica

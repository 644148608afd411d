// Products of matrices.
#include <cmath>

#include "mica/core/make_tensor.h"
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/einsum/einsum.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/matmul/matmul.h"

namespace mica::onnx {
namespace {

Results matmul_of(const Call& c) {
  const Tensor a = c[0];
  const Tensor b = c[1];
  if (is_floating(a.dtype())) return matmul(a, b);
  return cast(matmul(cast(a, DType::f64), cast(b, DType::f64)), a.dtype());
}

Results gemm(const Call& c) {
  const double alpha = c.number("alpha", 1);
  const double beta = c.number("beta", 1);
  const DType dtype = c[0].dtype();
  Tensor a = c[0];
  Tensor b = c[1];
  if (!is_floating(dtype)) {
    a = cast(a, DType::f64);
    b = cast(b, DType::f64);
  }
  c.check(a.rank() == 2 && b.rank() == 2, "matrices of {} and {}", a.shape(), b.shape());
  if (c.integer("transA", 0) != 0) a = transpose(a, 0, 1);
  const bool turned = c.integer("transB", 0) != 0;
  const int64_t columns = b.shape()[turned ? 0 : 1];
  Tensor bias = beta == 0 ? Tensor() : c.maybe(2);
  if (bias.defined() && bias.dtype() != a.dtype()) bias = cast(bias, a.dtype());
  if (alpha == 1 && beta == 1 && bias.defined() && bias.shape() == Shape{columns})
    return cast(linear(a, turned ? b : transpose(b, 0, 1), bias), dtype);
  Tensor y = matmul(a, turned ? transpose(b, 0, 1) : b);
  if (alpha != 1) y = mul(y, alpha);
  if (bias.defined()) y = add(y, beta == 1 ? bias : mul(bias, beta));
  return cast(y, dtype);
}

Results einsum_of(const Call& c) {
  Tensors operands = c.all();
  const DType dtype = operands[0].dtype();
  if (!is_floating(dtype))
    for (Tensor& t : operands) t = cast(t, DType::f64);
  return cast(einsum(c.text("equation"), operands), dtype);
}

/// By elimination on the host.
Results determinant(const Call& c) {
  const Tensor x = c[0];
  c.check(x.rank() >= 2 && x.shape()[x.rank() - 1] == x.shape()[x.rank() - 2],
          "a determinant of {}", x.shape());
  const std::vector<double> values = c.numbers(0);
  const auto n = static_cast<size_t>(x.shape().back());
  std::vector<double> results;
  Shape shape;
  for (int i = 0; i + 2 < x.rank(); ++i) shape.push_back(x.shape()[i]);
  for (size_t first = 0; results.size() < static_cast<size_t>(numel(shape)); first += n * n) {
    std::vector<double> m(values.begin() + static_cast<int64_t>(first),
                          values.begin() + static_cast<int64_t>(first + n * n));
    double product = 1;
    for (size_t k = 0; k < n && product != 0; ++k) {
      size_t pivot = k;
      for (size_t i = k + 1; i < n; ++i)
        if (std::abs(m[i * n + k]) > std::abs(m[pivot * n + k])) pivot = i;
      if (pivot != k) {
        for (size_t j = 0; j < n; ++j) std::swap(m[k * n + j], m[pivot * n + j]);
        product = -product;
      }
      product *= m[k * n + k];
      for (size_t i = k + 1; i < n && product != 0; ++i) {
        const double factor = m[i * n + k] / m[k * n + k];
        for (size_t j = k; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
      }
    }
    results.push_back(product);
  }
  return to(cast(tensor(results, shape), x.dtype()), x.device());
}

}  // namespace

Operators product_operators() {
  return {
      {"MatMul", matmul_of},
      {"Gemm", gemm},
      {"Einsum", einsum_of},
      {"Det", determinant},
  };
}

}  // namespace mica::onnx

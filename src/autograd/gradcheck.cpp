#include "mica/autograd/gradcheck.h"

#include <cmath>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/philox.h"
#include "mica/ops/copy/copy.h"

namespace mica {
namespace {

using Function = std::function<Tensors(const Tensors&)>;
using Values = std::vector<double>;

/// Numbers in [-1, 1), apart from the library's generators: a check must not change what a program
/// draws.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : seed_(seed) {}
  Values next(int64_t n) {
    Values values(static_cast<size_t>(n));
    for (double& v : values) v = 2.0 * unit_float(philox(seed_, block_++).v[0]) - 1.0;
    return values;
  }
  /// Cotangents keep away from zero, so that every output counts.
  Values next_cotangent(int64_t n) {
    Values values = next(n);
    for (double& v : values) v += v < 0 ? -0.5 : 0.5;
    return values;
  }

 private:
  uint64_t seed_;
  uint64_t block_ = 0;
};

/// Real numbers, or the parts of complex ones by turns.
Values values_of(const Tensor& t) {
  if (!is_complex(t.dtype())) return t.detach().to_vector<double>();
  Values values;
  for (const Complex<double> v : t.detach().to_vector<Complex<double>>())
    values.insert(values.end(), {v.re, v.im});
  return values;
}
int64_t count_of(const Tensor& t) { return t.numel() * (is_complex(t.dtype()) ? 2 : 1); }
/// A tensor of such values, in the shape, dtype and device of another.
Tensor tensor_of(const Values& values, const Tensor& like) {
  if (!is_complex(like.dtype())) return tensor(values, like.shape(), like.device());
  std::vector<Complex<double>> numbers;
  for (size_t i = 0; i < values.size(); i += 2) numbers.emplace_back(values[i], values[i + 1]);
  return tensor(numbers, like.shape(), like.device());
}
bool has_enough_digits(const Tensor& t) {
  return t.dtype() == DType::f64 || t.dtype() == DType::c128;
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The index of the element that is the nth in row-major order.
Dims index_of(const Shape& shape, int64_t nth) {
  Dims index = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = nth % shape[axis];
    nth /= shape[axis];
  }
  return index;
}

double norm(const Values& a) { return std::sqrt(dot(a, a)); }

/// Leaves with the values of `inputs`.
Tensors leaves_of(const Tensors& inputs) {
  Tensors leaves = inputs;
  for (Tensor& t : leaves)
    if (t.requires_grad()) t = clone(t.detach()).set_requires_grad();
  return leaves;
}

struct Check {
  const Function& function;
  const Tensors& inputs;
  std::vector<size_t> outputs;     // those that have a gradient
  std::vector<Values> cotangents;  // one for each of them

  /// The cotangent's product with the outputs where input i is moved by `step` along `direction`.
  double moved(size_t i, const Values& direction, double step) const {
    const NoGrad guard;
    const Tensor& x = inputs[i];
    Values values = values_of(x);
    for (size_t k = 0; k < values.size(); ++k) values[k] += step * direction[k];
    Tensors arguments = inputs;
    arguments[i] = contiguous_like(tensor_of(values, x), x);
    if (x.requires_grad()) arguments[i].set_requires_grad();
    const Tensors out = function(arguments);
    double sum = 0;
    for (size_t k = 0; k < outputs.size(); ++k)
      sum += dot(values_of(out[outputs[k]]), cotangents[k]);
    return sum;
  }

  static Tensor contiguous_like(const Tensor& t, const Tensor& like) {
    return like.spec().is_channels_last() ? contiguous(t, MemoryFormat::channels_last) : t;
  }
};

/// `function`'s gradient for a fixed cotangent, as a function of the same inputs.
Function gradient_of(const Function& function, uint64_t seed) {
  return [&function, seed](const Tensors& inputs) {
    const GradMode recording(true);
    Tensors wanted;
    for (const Tensor& t : inputs)
      if (t.requires_grad()) wanted.push_back(t);
    Numbers numbers(seed);
    Tensors outputs;
    Tensors cotangents;
    for (const Tensor& y : function(inputs)) {
      const Values v = numbers.next_cotangent(count_of(y));
      if (!y.requires_grad()) continue;
      outputs.push_back(y);
      cotangents.push_back(tensor_of(v, y));
    }
    Tensors result;
    for (const Tensor& g : grad(outputs, wanted, cotangents, {.create_graph = true}))
      if (g.defined()) result.push_back(g);
    return result;
  };
}

GradcheckResult check_first_order(const Function& function, const Tensors& inputs,
                                  const GradcheckOptions& options) {
  const Tensors leaves = leaves_of(inputs);
  Tensors wanted;
  for (const Tensor& t : leaves) {
    if (!t.requires_grad()) continue;
    check<DTypeError>(has_enough_digits(t), "gradcheck: inputs must be f64 or c128, got {}",
                      t.dtype());
    wanted.push_back(t);
  }
  check(!wanted.empty(), "gradcheck: no input requires a gradient");

  Numbers numbers(options.seed);
  Check c{function, inputs, {}, {}};
  Tensors with_history;
  Tensors cotangents;
  const Tensors outputs = function(leaves);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    check<DTypeError>(has_enough_digits(outputs[i]),
                      "gradcheck: outputs must be f64 or c128, got {}", outputs[i].dtype());
    c.outputs.push_back(i);
    c.cotangents.push_back(numbers.next_cotangent(count_of(outputs[i])));
    with_history.push_back(outputs[i]);
    cotangents.push_back(tensor_of(c.cotangents.back(), outputs[i]));
  }
  GradcheckResult result;
  // A gradient that is constant has no history: then only the differences speak.
  Tensors grads(wanted.size());
  if (!with_history.empty()) {
    grads = grad(with_history, wanted, cotangents);
  } else {
    check(options.second_order,
          "gradcheck: no output depends on an input that requires a gradient");
    for (size_t i = 0; i < outputs.size(); ++i) {
      c.outputs.push_back(i);
      c.cotangents.push_back(numbers.next_cotangent(count_of(outputs[i])));
    }
  }

  size_t nth = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const Tensor& g = grads[nth++];
    const int64_t n = count_of(inputs[i]);
    if (g.defined()) {
      check<ShapeError>(g.shape() == inputs[i].shape(),
                        "gradcheck: the gradient of input {} ({}) has shape {}", i,
                        inputs[i].shape(), g.shape());
      check<DTypeError>(g.dtype() == inputs[i].dtype(),
                        "gradcheck: the gradient of input {} ({}) is {}", i, inputs[i].dtype(),
                        g.dtype());
    }
    const Values ours = g.defined() ? values_of(g) : Values(static_cast<size_t>(n));
    const bool full = n <= options.full_up_to;
    const int64_t trials = full ? n : options.directions;
    // Small entries are judged by the size of the whole gradient: differences know no better.
    const double size =
        full ? norm(ours) / std::sqrt(static_cast<double>(std::max<int64_t>(n, 1))) : norm(ours);
    for (int64_t k = 0; k < trials; ++k) {
      Values direction(static_cast<size_t>(n));
      if (full) {
        direction[static_cast<size_t>(k)] = 1;
      } else {
        direction = numbers.next(n);
      }
      const double expected =
          (c.moved(i, direction, options.step) - c.moved(i, direction, -options.step)) /
          (2 * options.step);
      const double got = dot(ours, direction);
      const double error = std::abs(got - expected) / (std::max(std::abs(expected), size) + 1e-3);
      if (error <= result.worst && std::isfinite(error)) continue;
      result.worst = error;
      if (error <= options.tolerance) continue;
      result.ok = false;
      result.message = fmt::format(
          "input {} {}: the gradient is {}, differences give {} (relative error {:.3g})", i,
          full ? fmt::format("at {}", index_of(inputs[i].shape(), k * inputs[i].numel() / n))
               : fmt::format("along direction {}", k),
          got, expected, error);
    }
  }
  return result;
}

}  // namespace

GradcheckResult gradcheck(const Function& function, const Tensors& inputs,
                          const GradcheckOptions& options) {
  if (!options.second_order) return check_first_order(function, inputs, options);
  return check_first_order(gradient_of(function, options.seed + 1), inputs, options);
}

GradcheckResult gradgradcheck(const Function& function, const Tensors& inputs,
                              GradcheckOptions options) {
  options.second_order = true;
  return gradcheck(function, inputs, options);
}

}  // namespace mica

#include "mica/optim/adafactor.h"

#include <limits>

#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::optim {
namespace {

Shape row_means(const Shape& parameter) {
  if (parameter.rank() < 2) return {0};
  Shape shape = parameter;
  shape[shape.rank() - 1] = 1;
  return shape;
}
Shape column_means(const Shape& parameter) {
  if (parameter.rank() < 2) return {0};
  Shape shape = parameter;
  shape[shape.rank() - 2] = 1;
  return shape;
}
Shape squares(const Shape& parameter) { return parameter.rank() < 2 ? parameter : Shape{0}; }

/// The square root of the mean of the squares, 0-d.
Tensor size_of(const Tensor& x) { return sqrt(mean(square(x))); }

void move_towards(const Tensor& state, const Tensor& value, const Tensor& share) {
  copy_(state, add(state, mul(sub(value, state), share)));
}

double smallest_step(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                             : static_cast<double>(std::numeric_limits<float>::epsilon());
}

}  // namespace

Adafactor::Adafactor(Tensors parameters, const AdafactorOptions& options)
    : Adafactor(std::vector<Group>{{std::move(parameters), options}}) {}

Adafactor::Adafactor(const std::vector<Group>& groups) : OptimizerWith("optim::Adafactor") {
  add_groups(groups);
}

void Adafactor::check_options(const AdafactorOptions& o) const {
  check(o.beta2_decay <= 0, "{}: beta2_decay must not be positive, got {}", name(), o.beta2_decay);
  check(o.eps.first.value_or(0) >= 0 && o.eps.second >= 0, "{}: eps must not be negative", name());
  check(o.d >= 1, "{}: d must be at least 1, got {}", name(), o.d);
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
}

std::vector<Optimizer::State> Adafactor::states_for(const AdafactorOptions&) const {
  return {{"row_var", 0, row_means}, {"col_var", 0, column_means}, {"variance", 0, squares}};
}

void Adafactor::update(size_t group, const Tensor& lr, const Tensor& step, const Lists& lists) {
  const AdafactorOptions& o = options(group);
  for (size_t i = 0; i < lists.parameters.size(); ++i) {
    const Tensor& p = lists.parameters[i];
    const Tensor& g = lists.grads[i];
    const double least = o.eps.first.value_or(smallest_step(p.dtype()));
    const Tensor rate = cast(reshape(lr, {}), p.dtype());
    const Tensor number = cast(step, p.dtype());
    const Tensor share = pow(number, o.beta2_decay);
    const Tensor relative = mul(clamp(size_of(p), o.eps.second, {}), minimum(rate, rsqrt(number)));
    Tensor estimate;
    if (p.rank() < 2) {
      move_towards(lists.states[2][i], square(g), share);
      estimate = lists.states[2][i];
    } else {
      const Tensor& rows = lists.states[0][i];
      const Tensor& columns = lists.states[1][i];
      move_towards(rows, mean(square(g), {-1}, true), share);
      move_towards(columns, mean(square(g), {-2}, true), share);
      estimate = div(matmul(rows, columns), clamp(mean(rows, {-2}, true), least, {}));
    }
    const Tensor change = mul(rsqrt(clamp(estimate, least * least, {})), g);
    const Tensor most = clamp(div(size_of(change), o.d), 1.0, {});
    copy_(p, sub(mul(p, sub(1.0, mul(rate, o.weight_decay))), mul(change, div(relative, most))));
  }
}

}  // namespace mica::optim

#include "mica/optim/lbfgs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica::optim {
namespace {

double dot(const Tensor& a, const Tensor& b) { return cast(sum(mul(a, b)), DType::f64).item(); }
double largest(const Tensor& a) { return cast(max(abs(a)), DType::f64).item(); }
double number(const Tensor& t) { return cast(reshape(t, {}), DType::f64).item(); }

/// Where the cubic through two points with these slopes is lowest, within [low, high].
double cubic_minimum(double x1, double f1, double slope1, double x2, double f2, double slope2,
                     double low, double high) {
  const double d1 = slope1 + slope2 - 3 * (f1 - f2) / (x1 - x2);
  const double square = d1 * d1 - slope1 * slope2;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double at = x1 <= x2 ? x2 - (x2 - x1) * ((slope2 + d2 - d1) / (slope2 - slope1 + 2 * d2))
                             : x1 - (x1 - x2) * ((slope1 + d2 - d1) / (slope1 - slope2 + 2 * d2));
  return std::min(std::max(at, low), high);
}

}  // namespace

LBFGS::LBFGS(Tensors parameters, const LBFGSOptions& options) : OptimizerWith("optim::LBFGS") {
  add_groups({{std::move(parameters), options}});
}

void LBFGS::check_options(const LBFGSOptions& o) const {
  check(o.max_iter >= 1, "{}: max_iter must be at least 1, got {}", name(), o.max_iter);
  check(o.max_eval >= 0, "{}: max_eval must not be negative, got {}", name(), o.max_eval);
  check(o.history_size >= 1, "{}: history_size must be at least 1, got {}", name(), o.history_size);
}

std::vector<Optimizer::State> LBFGS::states_for(const LBFGSOptions&) const { return {}; }

void LBFGS::group_added(size_t group) {
  check<Unsupported>(group == 0, "{}: takes one group of parameters", name());
}

void LBFGS::update(size_t, const Tensor&, const Tensor&, const Lists&) {
  fail<Unsupported>("{}: step needs a closure that makes the gradients and gives the loss", name());
}

Tensor LBFGS::flat_grad() const {
  Tensors all;
  for (const Tensor& p : parameters())
    all.push_back(p.grad().defined() ? reshape(p.grad(), {-1}) : reshape(zeros_like(p), {-1}));
  return concat(all, 0);
}

void LBFGS::move(double length, const Tensor& direction) const {
  int64_t first = 0;
  for (const Tensor& p : parameters()) {
    const Tensor part = slice(direction, 0, first, first + p.numel());
    copy_(p, add(p.detach(), mul(reshape(part, p.shape()), length)));
    first += p.numel();
  }
}

LBFGS::Point LBFGS::evaluate(const Closure& closure) const {
  const GradMode guard(true);
  const double loss = number(closure());
  return {loss, flat_grad().detach()};
}

/// Puts what the last step taught of the curvature into the history.
void LBFGS::remember(const Tensor& grad) {
  const Tensor change = sub(grad, last_grad_);
  const Tensor step = mul(direction_, length_);
  const double product = dot(change, step);
  if (!(product > 1e-10)) return;
  if (static_cast<int64_t>(history_.size()) == options().history_size)
    history_.erase(history_.begin());
  history_.push_back({change, step, 1 / product});
  scale_ = product / dot(change, change);
}

/// The gradient times the inverse Hessian that the history stands for, downwards.
Tensor LBFGS::direction_from(const Tensor& grad) const {
  Tensor q = neg(grad);
  std::vector<double> alphas(history_.size());
  for (size_t i = history_.size(); i-- > 0;) {
    alphas[i] = dot(history_[i].step, q) * history_[i].inverse;
    q = sub(q, mul(history_[i].change, alphas[i]));
  }
  q = mul(q, scale_);
  for (size_t i = 0; i < history_.size(); ++i) {
    const double beta = dot(history_[i].change, q) * history_[i].inverse;
    q = add(q, mul(history_[i].step, alphas[i] - beta));
  }
  return q;
}

/// A length along the direction at which the strong Wolfe conditions hold: a bracket is widened
/// until it holds one, then narrowed.
LBFGS::Found LBFGS::search(const Closure& closure, const Tensor& direction, const Point& start,
                           double slope, double length, int64_t most) const {
  constexpr double kArmijo = 1e-4;
  constexpr double kCurvature = 0.9;
  constexpr int64_t kTries = 25;
  const double change = options().tolerance_change;
  const int64_t tries = std::min(kTries, most);
  const double reach = largest(direction);
  Tensors before;
  for (const Tensor& p : parameters()) before.push_back(clone(p.detach()));
  int64_t evaluations = 0;
  struct End {
    double at;
    Point point;
  };
  const auto at = [&](double t) {
    move(t, direction);
    Point point = evaluate(closure);
    point.slope = dot(point.grad, direction);
    const Tensors own = parameters();
    for (size_t i = 0; i < own.size(); ++i) copy_(own[i], before[i]);
    ++evaluations;
    return End{t, std::move(point)};
  };
  const auto too_high = [&](const End& end) {
    return end.point.loss > start.loss + kArmijo * end.at * slope;
  };
  const auto flat = [&](const End& end) {
    return std::abs(end.point.slope) <= -kCurvature * slope;
  };

  End previous{0, {start.loss, start.grad, slope}};
  End now = at(length);
  std::array<End, 2> bracket = {previous, now};
  int64_t tried = 0;
  bool done = false;
  bool found = false;
  while (tried < tries) {
    if (too_high(now) || (tried > 1 && now.point.loss >= previous.point.loss)) {
      bracket = {previous, now};
      found = true;
      break;
    }
    if (flat(now)) {
      bracket = {now, now};
      done = found = true;
      break;
    }
    if (now.point.slope >= 0) {
      bracket = {previous, now};
      found = true;
      break;
    }
    const double next = cubic_minimum(previous.at, previous.point.loss, previous.point.slope,
                                      now.at, now.point.loss, now.point.slope,
                                      now.at + 0.01 * (now.at - previous.at), now.at * 10);
    previous = now;
    now = at(next);
    ++tried;
  }
  if (!found) bracket = {End{0, {start.loss, start.grad, slope}}, now};

  bool stuck = false;
  size_t low = bracket[0].point.loss <= bracket[1].point.loss ? 0 : 1;
  while (!done && tried < tries) {
    const double first = std::min(bracket[0].at, bracket[1].at);
    const double last = std::max(bracket[0].at, bracket[1].at);
    if ((last - first) * reach < change) break;
    double t =
        cubic_minimum(bracket[0].at, bracket[0].point.loss, bracket[0].point.slope, bracket[1].at,
                      bracket[1].point.loss, bracket[1].point.slope, first, last);
    // Twice in a row near an end, or on it, is no progress.
    const double margin = 0.1 * (last - first);
    if (std::min(last - t, t - first) < margin) {
      if (stuck || t >= last || t <= first) {
        t = std::abs(t - last) < std::abs(t - first) ? last - margin : first + margin;
        stuck = false;
      } else {
        stuck = true;
      }
    } else {
      stuck = false;
    }
    now = at(t);
    ++tried;
    const size_t high = 1 - low;
    if (too_high(now) || now.point.loss >= bracket[low].point.loss) {
      bracket[high] = now;
      low = bracket[0].point.loss <= bracket[1].point.loss ? 0 : 1;
    } else {
      if (flat(now)) {
        done = true;
      } else if (now.point.slope * (bracket[high].at - bracket[low].at) >= 0) {
        bracket[high] = bracket[low];
      }
      bracket[low] = now;
    }
  }
  return {bracket[low].at, bracket[low].point, evaluations};
}

Tensor LBFGS::step(const Closure& closure) {
  check<Unsupported>(current_recorder() == nullptr,
                     "{}: a step cannot be compiled, since it decides by numbers; compile the "
                     "closure",
                     name());
  const LBFGSOptions& o = options();
  const int64_t most = o.max_eval > 0 ? o.max_eval : o.max_iter * 5 / 4;
  Tensor first;
  const NoGrad guard;
  Point now = evaluate([&] { return first = closure(); });
  int64_t evaluations = 1;
  if (largest(now.grad) <= o.tolerance_grad) return first;
  const double lr = current_lr();
  for (int64_t i = 1; i <= o.max_iter; ++i) {
    if (++iterations_ == 1) {
      direction_ = neg(now.grad);
    } else {
      remember(now.grad);
      direction_ = direction_from(now.grad);
    }
    last_grad_ = clone(now.grad);
    const double loss_before = now.loss;
    length_ = iterations_ == 1 ? std::min(1.0, 1 / number(sum(abs(now.grad)))) * lr : lr;
    const double slope = dot(now.grad, direction_);
    if (slope > -o.tolerance_change) break;
    if (o.strong_wolfe) {
      Found found = search(closure, direction_, now, slope, length_, most - evaluations);
      now = std::move(found.point);
      length_ = found.length;
      move(length_, direction_);
      evaluations += found.evaluations;
    } else {
      move(length_, direction_);
      if (i != o.max_iter) {  // nobody would read the last one
        now = evaluate(closure);
        ++evaluations;
      }
    }
    if (i == o.max_iter || evaluations >= most) break;
    if (largest(now.grad) <= o.tolerance_grad) break;
    if (largest(direction_) * std::abs(length_) <= o.tolerance_change) break;
    if (std::abs(now.loss - loss_before) < o.tolerance_change) break;
  }
  count_step();
  return first;
}

StateDict LBFGS::state_dict() const {
  StateDict state = Optimizer::state_dict();
  const Device there = device();
  std::vector<double> numbers = {static_cast<double>(iterations_), scale_, length_};
  for (const Pair& pair : history_) numbers.push_back(pair.inverse);
  state.emplace("numbers", tensor(numbers, {static_cast<int64_t>(numbers.size())}, there));
  if (direction_.defined()) state.emplace("direction", direction_);
  if (last_grad_.defined()) state.emplace("last_grad", last_grad_);
  for (size_t i = 0; i < history_.size(); ++i) {
    state.emplace(fmt::format("history.{}.change", i), history_[i].change);
    state.emplace(fmt::format("history.{}.step", i), history_[i].step);
  }
  return state;
}

void LBFGS::load_state_dict(const StateDict& state) {
  StateDict rest = state;
  int64_t size = 0;
  for (const Tensor& p : parameters()) size += p.numel();
  const auto take = [&](const std::string& key, bool needed) {
    const Tensor taken = rest.take(key);
    check(!needed || taken.defined(), "{}: load_state_dict: '{}' is missing", name(), key);
    if (!taken.defined()) return Tensor();
    const Tensor value = to(taken, device());
    check<ShapeError>(key == "numbers"
                          ? value.rank() == 1 && value.numel() >= 3 && value.dtype() == DType::f64
                          : value.shape() == Shape{size},
                      "{}: load_state_dict: '{}' does not fit, got {}", name(), key, value.spec());
    return clone(value);
  };
  const std::vector<double> numbers = take("numbers", true).to_vector<double>();
  const size_t pairs = numbers.size() - 3;
  std::vector<Pair> history;
  for (size_t i = 0; i < pairs; ++i)
    history.push_back({take(fmt::format("history.{}.change", i), true),
                       take(fmt::format("history.{}.step", i), true), numbers[3 + i]});
  const Tensor direction = take("direction", numbers[0] > 0);
  const Tensor last_grad = take("last_grad", numbers[0] > 0);
  Optimizer::load_state_dict(rest);
  history_ = std::move(history);
  direction_ = direction;
  last_grad_ = last_grad;
  iterations_ = static_cast<int64_t>(numbers[0]);
  scale_ = numbers[1];
  length_ = numbers[2];
}

}  // namespace mica::optim

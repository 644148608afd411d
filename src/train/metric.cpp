#include "mica/train/metric.h"

#include <cmath>
#include <numbers>

#include "mica/autograd/autograd.h"
#include "mica/core/values_check.h"
#include "mica/ops/ops.h"

namespace mica::train {
namespace {

double number(const Values& state, int64_t i) { return state[i].tensor().item(); }

Tensor as_count(const Tensor& t) { return sum(cast(t, DType::f64)); }

/// Outputs as rows (n, C), their classes (n), 0 where they are left out, and which are not.
struct Rows {
  Tensor scores, classes, counted;
};

Rows rows_of(const char* metric, const Tensor& output, const Tensor& target, int64_t ignored) {
  check<ShapeError>(output.rank() >= 2 && target.rank() == output.rank() - 1,
                    "{}: expected outputs (N, C, …) and classes (N, …), got {} and {}", metric,
                    output.spec(), target.spec());
  for (int axis = 0; axis < target.rank(); ++axis)
    check<ShapeError>(target.size(axis) == output.size(axis == 0 ? 0 : axis + 1),
                      "{}: expected outputs (N, C, …) and classes (N, …), got {} and {}", metric,
                      output.spec(), target.spec());
  check<DTypeError>(!is_floating(target.dtype()), "{}: expected class numbers, got {}", metric,
                    target.spec());
  const int64_t classes = output.size(1);
  const Tensor last = output.rank() == 2 ? output : movedim(output, {1}, {-1});
  const Tensor flat = reshape(cast(target, DType::i64), {target.numel()});
  const Tensor counted = ne(flat, ignored);
  return {reshape(cast(last, DType::f32), {target.numel(), classes}),
          where(counted, flat, int64_t{0}), counted};
}

double share(const Values& state) { return number(state, 0) / number(state, 1); }

Metric likelihood(const char* name, int64_t ignored, double (*of_mean)(double)) {
  return {.name = name,
          .update =
              [name, ignored](const Tensor& output, const Tensor& target) {
                const auto [scores, classes, counted] = rows_of(name, output, target, ignored);
                const Tensor loss = cross_entropy(scores, classes, {.reduction = Reduction::none});
                return Tensors{as_count(where(counted, loss, 0.0)), as_count(counted)};
              },
          .compute = [of_mean](const Values& s) { return of_mean(share(s)); },
          .higher_is_better = false};
}

Metric error(const char* name, Tensor (*of_difference)(const Tensor&), double (*of_mean)(double)) {
  return {.name = name,
          .update =
              [name, of_difference](const Tensor& output, const Tensor& target) {
                check<ShapeError>(output.shape() == target.shape(),
                                  "{}: expected outputs and targets of one shape, got {} and {}",
                                  name, output.spec(), target.spec());
                const Tensor difference = sub(cast(output, DType::f64), cast(target, DType::f64));
                return Tensors{sum(of_difference(difference)),
                               full({}, static_cast<double>(output.numel()),
                                    {.dtype = DType::f64, .device = output.device()})};
              },
          .compute = [of_mean](const Values& s) { return of_mean(share(s)); },
          .higher_is_better = false};
}

}  // namespace

Metric accuracy_metric(int64_t ignored) {
  return {.name = "accuracy",
          .update =
              [ignored](const Tensor& output, const Tensor& target) {
                const auto [scores, classes, counted] =
                    rows_of("accuracy", output, target, ignored);
                const Tensor right = logical_and(eq(argmax(scores, 1), classes), counted);
                return Tensors{as_count(right), as_count(counted)};
              },
          .compute = share,
          .is_share = true};
}

Metric top_k_metric(int64_t k, int64_t ignored) {
  check(k >= 1, "top_k: k must be at least 1, got {}", k);
  return {.name = fmt::format("top{}", k),
          .update =
              [k, ignored](const Tensor& output, const Tensor& target) {
                const auto [scores, classes, counted] = rows_of("top_k", output, target, ignored);
                const Tensor own = gather(scores, 1, reshape(classes, {classes.numel(), 1}));
                const Tensor larger = sum(cast(logical_not(lt(scores, own)), DType::i64), {1});
                return Tensors{as_count(logical_and(le(larger, k), counted)), as_count(counted)};
              },
          .compute = share,
          .is_share = true};
}

Tensor confusion_counts(const Tensor& output, const Tensor& target, int64_t ignored) {
  const auto [scores, classes, counted] = rows_of("confusion", output, target, ignored);
  const int64_t n = output.size(1);
  const Tensor cell = add(mul(classes, n), argmax(scores, 1));
  const Tensor none = zeros({n * n}, {.dtype = DType::i64, .device = output.device()});
  // A class outside [0, n) has a cell outside too, which raises.
  return reshape(index_add(none, 0, cell, cast(counted, DType::i64)), {n, n});
}

Metric mean_iou_metric(int64_t ignored) {
  return {.name = "mean_iou",
          .update = [ignored](
                        const Tensor& output,
                        const Tensor& target) { return confusion_counts(output, target, ignored); },
          .compute =
              [](const Values& state) {
                const Tensor& counts = state.tensor();
                const int64_t n = counts.size(0);
                const auto all = counts.to_vector<double>();
                const auto at = [&](int64_t i, int64_t j) {
                  return all[static_cast<size_t>(i * n + j)];
                };
                double sum = 0;
                double occur = 0;
                for (int64_t c = 0; c < n; ++c) {
                  double either = -at(c, c);
                  for (int64_t k = 0; k < n; ++k) either += at(c, k) + at(k, c);
                  if (either == 0) continue;
                  sum += at(c, c) / either;
                  occur += 1;
                }
                return sum / occur;
              },
          .is_share = true};
}

Metric perplexity_metric(int64_t ignored) {
  return likelihood("perplexity", ignored, [](double mean) { return std::exp(mean); });
}

Metric bits_per_character_metric(int64_t ignored) {
  return likelihood("bits_per_character", ignored,
                    [](double mean) { return mean * std::numbers::log2e; });
}

Metric mean_squared_error_metric() {
  return error("mse", [](const Tensor& d) { return square(d); }, [](double mean) { return mean; });
}

Metric root_mean_squared_error_metric() {
  return error(
      "rmse", [](const Tensor& d) { return square(d); },
      [](double mean) { return std::sqrt(mean); });
}

Metric mean_absolute_error_metric() {
  return error("mae", [](const Tensor& d) { return abs(d); }, [](double mean) { return mean; });
}

Metric r2_metric() {
  return {.name = "r2",
          .update =
              [](const Tensor& output, const Tensor& target) {
                check<ShapeError>(output.shape() == target.shape(),
                                  "r2: expected outputs and targets of one shape, got {} and {}",
                                  output.spec(), target.spec());
                const Tensor y = cast(target, DType::f64);
                return Tensors{sum(square(sub(cast(output, DType::f64), y))), sum(y),
                               sum(square(y)),
                               full({}, static_cast<double>(y.numel()),
                                    {.dtype = DType::f64, .device = y.device()})};
              },
          .compute =
              [](const Values& s) {
                const double mean = number(s, 1) / number(s, 3);
                return 1 - number(s, 0) / (number(s, 2) - mean * number(s, 1));
              }};
}

void Meter::add(const Values& output, const Values& target) {
  const NoGrad guard;
  const Values added = map_leaves(metric_.update(output, target),
                                  [](const Tensor& t) { return cast(t, DType::f64); });
  if (state_.is_nothing()) {
    state_ = added;
    return;
  }
  check(same_structure(state_, added), "metric {}: a batch adds {}, others {}", metric_.name, added,
        state_);
  Tensors sums;
  const Tensors more = flatten(added);
  for (const Tensor& t : flatten(state_)) {
    const Tensor& other = more[sums.size()];
    check<ShapeError>(t.shape() == other.shape(), "metric {}: {} of a batch is {}, others {}",
                      metric_.name, ValuesPath("state"), other.spec(), t.spec());
    sums.push_back(mica::add(t, other));
  }
  state_ = unflatten(state_, sums);
}

double Meter::result() const {
  check(!state_.is_nothing(), "metric {}: has seen no batch", metric_.name);
  return metric_.compute(map_leaves(state_, [](const Tensor& t) { return to(t, Device::cpu()); }));
}

}  // namespace mica::train

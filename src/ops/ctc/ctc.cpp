#include "mica/ops/ctc/ctc.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/make_tensor.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/loss/functions.h"
#include "mica/ops/operators.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/reference.h"
#include "mica/ops/scan/scan.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {

const OpDef& ctc_op();

namespace {

enum In { kLogProbs, kTargets, kInputLengths, kTargetLengths };

/// A length that stands for all of them where they do not add up to the targets there are.
constexpr int64_t kNotAll = std::numeric_limits<int64_t>::min();

void check_lengths(const Shape& given, int64_t batch) {
  check<ShapeError>(given == Shape{batch}, "ctc_loss: lengths must be {}, got {}", Shape{batch},
                    given);
}

void infer(const CtcParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& x = in[kLogProbs].shape;
  check<ShapeError>(x.rank() == 3 && numel(x) > 0,
                    "ctc_loss: log_probs must be (steps, batch, classes), none of them 0, got {}",
                    x);
  check<ShapeError>(in[kTargets].rank() == 2 && in[kTargets].shape[0] == x[1],
                    "ctc_loss: targets must be ({}, targets of a sequence), got {}", x[1],
                    in[kTargets].shape);
  for (const int i : {kInputLengths, kTargetLengths})
    check_lengths(in[static_cast<size_t>(i)].shape, x[1]);
  for (const int i : {kTargets, kInputLengths, kTargetLengths})
    check<DTypeError>(in[static_cast<size_t>(i)].dtype == DType::i64,
                      "ctc_loss: targets and lengths must be integers, got {}",
                      in[static_cast<size_t>(i)].dtype);
  check<IndexError>(p.blank >= 0 && p.blank < x[2],
                    "ctc_loss: blank must be one of {} classes, got {}", x[2], p.blank);
  out.add({x[1]}, in[kLogProbs].dtype);
  out.add(p.keep ? x : Shape{0}, in[kLogProbs].dtype);
  out[1].strides = contiguous_strides(out[1].shape);
}

Tensors vjp(const CtcParams&, const VjpArgs& a) {
  check<Unsupported>(!grad_wanted(Tensors{a.out[1], a.grad[0]}),
                     "ctc_loss: its gradient is not differentiated again");
  Tensors grads(4);
  if (a.needs(kLogProbs)) grads[0] = a.out[1] * reshape(a.grad[0], {1, -1, 1});
  return grads;
}

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == -std::numeric_limits<double>::infinity() ? a : a + std::log1p(std::exp(b - a));
}

/// One sequence; alpha is (T, 2 S + 1).
class Sequence {
 public:
  Sequence(const CtcParams& p, const Call& call, int64_t n, double* alpha)
      : call_(call),
        log_probs_(call.in[kLogProbs]),
        n_(n),
        steps_(length(kInputLengths, call.in[kLogProbs].shape()[0], 1)),
        states_(2 * length(kTargetLengths, call.in[kTargets].shape()[1], 0) + 1),
        blank_(p.blank),
        alpha_(alpha) {
    for (int64_t s = 1; s < states_; s += 2) {
      const int64_t c = label(s);
      check(c >= 0 && c < classes() && c != blank_,
            "ctc_loss: targets must be classes in [0, {}) but {}, the blank, got {}", classes(),
            blank_, c);
    }
  }

  double loss() {
    for (int64_t t = 0; t < steps_; ++t)
      for (int64_t s = 0; s < states_; ++s) {
        double sum = kNever;
        if (t == 0) {
          sum = s < 2 ? 0 : kNever;
        } else {
          const double* before = alpha_ + (t - 1) * states_;
          sum = before[s];
          if (s >= 1) sum = log_add(sum, before[s - 1]);
          if (skips(s)) sum = log_add(sum, before[s - 2]);
        }
        alpha_[t * states_ + s] = sum + log_prob(t, s);
      }
    const double* last = alpha_ + (steps_ - 1) * states_;
    return -(states_ > 1 ? log_add(last[states_ - 1], last[states_ - 2]) : last[0]);
  }

  void gradient(double loss, bool zero) const {
    const DoubleValues grad(call_.out[1]);
    const int64_t batch = call_.in[kLogProbs].shape()[1];
    const int64_t all = call_.in[kLogProbs].shape()[0];
    const size_t row = static_cast<size_t>(classes()) * size_of(call_.out[1].dtype());
    for (int64_t t = 0; t < all; ++t)
      std::memset(
          static_cast<std::byte*>(call_.out[1].data) + static_cast<size_t>(t * batch + n_) * row, 0,
          row);
    if (zero) return;
    std::vector<double> beta(static_cast<size_t>(states_));
    std::vector<double> next(beta.size());
    std::vector<double> sums(static_cast<size_t>(classes()));
    for (int64_t t = steps_ - 1; t >= 0; --t) {
      beta.swap(next);
      for (int64_t s = 0; s < states_; ++s) {
        double sum = kNever;
        if (t == steps_ - 1) {
          sum = s >= states_ - 2 ? 0 : kNever;
        } else {
          sum = next[static_cast<size_t>(s)] + log_prob(t + 1, s);
          if (s + 1 < states_)
            sum = log_add(sum, next[static_cast<size_t>(s + 1)] + log_prob(t + 1, s + 1));
          if (s + 2 < states_ && skips(s + 2))
            sum = log_add(sum, next[static_cast<size_t>(s + 2)] + log_prob(t + 1, s + 2));
        }
        beta[static_cast<size_t>(s)] = sum;
      }
      for (int64_t s = 0; s < states_; ++s)
        sums[static_cast<size_t>(label(s))] +=
            std::exp(alpha_[t * states_ + s] + beta[static_cast<size_t>(s)] + loss);
      for (int64_t s = 0; s < states_; ++s) {
        double& sum = sums[static_cast<size_t>(label(s))];
        if (sum != 0) grad.set((t * batch + n_) * classes() + label(s), -sum);
        sum = 0;
      }
    }
  }

 private:
  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  int64_t length(int input, int64_t most, int64_t least) const {
    const Arg& arg = call_.in[static_cast<size_t>(input)];
    const int64_t given = arg.as<int64_t>()[n_ * arg.strides()[0]];
    check(given != kNotAll,
          "ctc_loss: lengths of targets that lie one after the other must add up to their number");
    check(given >= least && given <= most, "ctc_loss: lengths of {} must be in [{}, {}], got {}",
          input == kInputLengths ? "inputs" : "targets", least, most, given);
    return given;
  }
  int64_t classes() const { return call_.in[kLogProbs].shape()[2]; }
  int64_t label(int64_t s) const {
    const Arg& t = call_.in[kTargets];
    return s % 2 == 0 ? blank_ : t.as<int64_t>()[n_ * t.strides()[0] + s / 2 * t.strides()[1]];
  }
  bool skips(int64_t s) const { return s % 2 == 1 && s >= 3 && label(s) != label(s - 2); }
  double log_prob(int64_t t, int64_t s) const {
    return log_probs_[(t * call_.in[kLogProbs].shape()[1] + n_) * classes() + label(s)];
  }

  const Call& call_;
  const DoubleValues log_probs_;
  int64_t n_;
  int64_t steps_;
  int64_t states_;
  int64_t blank_;
  double* alpha_;
};

int64_t alphas_of(const Shape& log_probs, const Shape& targets) {
  return log_probs[0] * (2 * targets[1] + 1);
}

std::shared_ptr<KernelState> prepare(const CtcParams&, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes =
      static_cast<size_t>(s.in[kLogProbs].shape[1] *
                          alphas_of(s.in[kLogProbs].shape, s.in[kTargets].shape)) *
      sizeof(double);
  return state;
}

void run(const CtcParams& p, const KernelState&, const Call& call) {
  const Shape& x = call.in[kLogProbs].shape();
  const int64_t alphas = alphas_of(x, call.in[kTargets].shape());
  parallel_for(x[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      Sequence sequence(p, call, n, static_cast<double*>(call.workspace) + n * alphas);
      const double loss = sequence.loss();
      const bool zero = p.zero_infinity && std::isinf(loss);
      DoubleValues(call.out[0]).set(n, zero ? 0 : loss);
      if (p.keep) sequence.gradient(loss, zero);
    }
  });
}

struct Rows {
  Tensor targets, lengths;
};

/// Rows (N, S) of targets that lie one after the other. Lengths stay on the device: a row has room
/// for one target more than there are steps, since of so many none can be aligned.
Rows rows_of(const Tensor& targets, const Tensor& lengths, int64_t steps, int64_t batch) {
  check_lengths(lengths.shape(), batch);
  const int64_t width = std::min(targets.size(0), steps + 1);
  const Tensor sums_up = eq(sum(lengths), targets.size(0));
  const Tensor kept = where(sums_up, minimum(lengths, width), kNotAll);
  const TensorOptions options = {.dtype = DType::i64, .device = targets.device()};
  if (width == 0) return {zeros({batch, 0}, options), kept};
  const Tensor column = arange(width, options);
  const Tensor first = cumsum(lengths, {.axis = 0, .exclusive = true});
  const Tensor index =
      where(lt(column, unsqueeze(kept, 1)), unsqueeze(first, 1) + column, int64_t{0});
  return {reshape(index_select(targets, 0, reshape(index, {-1})), {batch, width}), kept};
}

}  // namespace

const OpDef& ctc_op() {
  static OpDef def = Op<CtcParams>("ctc")
                         .inputs({"log_probs", "targets", "input_lengths", "target_lengths"})
                         .outputs({"loss", "grad"})
                         .precision(Precision::f32)
                         .dtypes(kFloatDTypes)
                         .infer<infer>()
                         .vjp<vjp>({.out = {1}})
                         .cpu({kernel<supports_all<CtcParams>, prepare, run>("reference")})
                         .build();
  return def;
}

Tensor ctc_loss(const Tensor& log_probs, const Tensor& any_targets, const Tensor& any_input_lengths,
                const Tensor& any_target_lengths, const CtcOptions& o) {
  for (const Tensor* t : {&log_probs, &any_targets, &any_input_lengths, &any_target_lengths})
    check(t->defined(), "ctc_loss: log_probs, targets and both lengths must be defined");
  const auto whole = [](const Tensor& t) {
    return is_integer(t.dtype()) ? cast(t, DType::i64) : t;  // others are refused
  };
  const Tensor targets = whole(any_targets);
  const Tensor input_lengths = whole(any_input_lengths);
  const Tensor target_lengths = whole(any_target_lengths);
  if (log_probs.rank() == 2) {
    for (const Tensor* lengths : {&input_lengths, &target_lengths})
      check<ShapeError>(lengths->numel() == 1, "ctc_loss: one sequence has one length, got {}",
                        lengths->shape());
    CtcOptions one = o;
    one.reduction = Reduction::none;
    const auto batched = [](const Tensor& t, int64_t axis) { return unsqueeze(t, axis); };
    Tensor loss = squeeze(ctc_loss(batched(log_probs, 1), batched(targets, 0),
                                   reshape(input_lengths, {1}), reshape(target_lengths, {1}), one),
                          {0});
    if (o.reduction != Reduction::mean) return loss;
    return loss / cast(clamp(reshape(target_lengths, {}), {.low = 1}), loss.dtype());
  }
  Rows rows = {targets, target_lengths};
  if (targets.rank() == 1 && log_probs.rank() == 3)
    rows = rows_of(targets, target_lengths, log_probs.size(0), log_probs.size(1));
  const Tensors in = {log_probs, rows.targets, input_lengths, rows.lengths};
  Tensor losses = dispatch(ctc_op(), CtcParams{o.blank, o.zero_infinity, grad_wanted(in)}, in)[0];
  switch (o.reduction) {
    case Reduction::none:
      return losses;
    case Reduction::sum:
      return sum(losses);
    default:
      return mean(losses / cast(clamp(target_lengths, {.low = 1}), losses.dtype()));
  }
}

Functions ctc_functions() {
  const auto call = [](const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, int64_t blank, Reduction reduction,
                       bool zero_infinity) {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths,
                    {.blank = blank, .reduction = reduction, .zero_infinity = zero_infinity});
  };
  const auto call_listed = [](const Tensor& log_probs, const Tensor& targets,
                              const Ints& input_lengths, const Ints& target_lengths, int64_t blank,
                              Reduction reduction, bool zero_infinity) {
    const auto there = [&](const Ints& lengths) { return to(tensor(lengths), targets.device()); };
    return ctc_loss(log_probs, targets, there(input_lengths), there(target_lengths),
                    {.blank = blank, .reduction = reduction, .zero_infinity = zero_infinity});
  };
  const auto named = [](auto f) {
    return Signature(f, {"log_probs",
                         "targets",
                         "input_lengths",
                         "target_lengths",
                         {"blank", 0},
                         {"reduction", "mean"},
                         {"zero_infinity", false}});
  };
  return {
      {.name = "ctc_loss",
       .doc =
           "Minus the logarithm of the probability that log_probs (T, N, C), logarithms of "
           "probabilities, give targets (N, S), or those of all sequences one after the other, "
           "once repeats are merged and blanks left out. Lengths, integers (N) or a list, say how "
           "many steps and targets of each sequence count.",
       .signatures = {named(call), named(call_listed)},
       .offer = kFunctional,
       .op = "ctc"}};
}

}  // namespace mica

// The ops attention and attention_grad: what they accept and give, and their gradients.
#include <limits>
#include <vector>

#include "mica/core/check.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/ops/attention/problem.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

const OpDef& dropout_op();
const OpDef& attention_grad_op();

namespace {

/// Sums of exponentials are kept as numbers of this dtype.
DType statistics_dtype(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

/// Dense, with the axes in the order in which they lie in `like`: queries before heads, or after.
Strides dense_like(const Shape& shape, bool queries_first) {
  if (!queries_first) return contiguous_strides(shape);
  return {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
}
bool queries_first(const TensorSpec& x) {
  return x.shape[1] > 1 && x.shape[2] > 1 && x.strides[1] < x.strides[2];
}

void check_operands(const char* op, const AttentionParams& p, const TensorSpec& q,
                    const TensorSpec& k, const TensorSpec& v) {
  if (p.heads > 0) {
    check<ShapeError>(!k.defined && !v.defined && q.rank() == 4 && p.kv_heads > 0 &&
                          q.shape[2] == p.heads + 2 * p.kv_heads && p.heads % p.kv_heads == 0,
                      "{}: expected queries, keys and values of {} and {} heads in one tensor "
                      "(B, L, {}, E), got {}",
                      op, p.heads, p.kv_heads, p.heads + 2 * p.kv_heads, q.shape);
    return;
  }
  check<ShapeError>(k.defined && v.defined && q.rank() == 4 && k.rank() == 4 && v.rank() == 4 &&
                        q.shape[0] == k.shape[0] && k.shape[0] == v.shape[0] &&
                        k.shape[1] == v.shape[1] && q.shape[3] == k.shape[3] &&
                        k.shape[2] == v.shape[2],
                    "{}: expected q (B, H, L, E), k (B, G, S, E) and v (B, G, S, V), got {}, {} "
                    "and {}",
                    op, q.shape, k.shape, v.shape);
  check<ShapeError>(q.shape[1] == k.shape[1] || (k.shape[1] > 0 && q.shape[1] % k.shape[1] == 0),
                    "{}: the queries' heads must be a multiple of the keys', got {} and {}", op,
                    q.shape[1], k.shape[1]);
  check<DTypeError>(q.dtype == k.dtype && q.dtype == v.dtype,
                    "{}: q, k and v must have one dtype, got {}, {} and {}", op, q.dtype, k.dtype,
                    v.dtype);
}

void check_others(const char* op, const AttentionParams& p, const Shape& scores, DType dtype,
                  std::span<const TensorSpec> in, const AttentionInputs& at) {
  check(p.dropout >= 0 && p.dropout < 1, "{}: dropout must be in [0, 1), got {}", op, p.dropout);
  check(p.left >= -1 && p.right >= -1,
        "{}: keys to the left and right must be -1 or more, got {} "
        "and {}",
        op, p.left, p.right);
  const TensorSpec& mask = in[at.mask];
  if (mask.defined) {
    bool fits = mask.rank() == 4;
    for (int i = 0; fits && i < 4; ++i) fits = mask.shape[i] == 1 || mask.shape[i] == scores[i];
    check<ShapeError>(fits, "{}: the mask must broadcast to {}, got {}", op, scores, mask.shape);
    check<DTypeError>(mask.dtype == DType::boolean || mask.dtype == dtype,
                      "{}: the mask must be bool or {} as the query, got {}", op, dtype,
                      mask.dtype);
  }
  const TensorSpec& lengths = in[at.lengths];
  check<ShapeError>(
      !lengths.defined || (lengths.dtype == DType::i32 && lengths.shape == Shape{scores[0]} &&
                           lengths.is_contiguous()),
      "{}: lengths must be i32[{}], got {}", op, scores[0], lengths);
  const TensorSpec& counter = in[at.counter];
  check<ShapeError>(
      counter.defined == (p.dropout > 0) &&
          (!counter.defined ||
           (counter.dtype == DType::i64 && counter.shape == Shape{2} && counter.is_contiguous())),
      "{}: the counter must be i64[2] where there is dropout, got {}", op, counter);
}

struct Sizes {
  Shape scores;  // (B, H, L, S)
  Shape y;       // (B, H, L, V)
};
Sizes sizes_of(const AttentionParams& p, const TensorSpec& q, const TensorSpec& k,
               const TensorSpec& v) {
  if (p.heads > 0)
    return {{q.shape[0], p.heads, q.shape[1], q.shape[1]},
            {q.shape[0], p.heads, q.shape[1], q.shape[3]}};
  return {{q.shape[0], q.shape[1], q.shape[2], k.shape[2]},
          {q.shape[0], q.shape[1], q.shape[2], v.shape[3]}};
}

void infer(const AttentionParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& q = in[0];
  check_operands(out.op(), p, q, in[1], in[2]);
  const Sizes sizes = sizes_of(p, q, in[1], in[2]);
  check_others(out.op(), p, sizes.scores, q.dtype, in, kAttentionInputs);
  out.add(sizes.y, q.dtype);
  out[0].strides = dense_like(sizes.y, p.heads > 0 || queries_first(q));
  const Shape rows = {sizes.y[0], sizes.y[1], sizes.y[2]};
  out.add(rows, statistics_dtype(q.dtype));
  out[1].strides = contiguous_strides(rows);
}

void infer_grad(const AttentionParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& q = in[1];
  check_operands(out.op(), p, q, in[2], in[3]);
  const Sizes sizes = sizes_of(p, q, in[2], in[3]);
  check_others(out.op(), p, sizes.scores, q.dtype, in, kAttentionGradInputs);
  const Shape rows = {sizes.y[0], sizes.y[1], sizes.y[2]};
  for (const size_t i : {size_t{0}, kAttentionGradY})
    check<ShapeError>(in[i].shape == sizes.y && in[i].dtype == q.dtype,
                      "{}: {} must be {} {}, got {}", out.op(), i == 0 ? "dy" : "y", q.dtype,
                      sizes.y, in[i]);
  for (const size_t i : {kAttentionGradLse, kAttentionGradDlse})
    check<ShapeError>(
        !in[i].defined || (in[i].shape == rows && in[i].dtype == statistics_dtype(q.dtype)),
        "{}: {} must be {} {}, got {}", out.op(), i == kAttentionGradLse ? "lse" : "dlse",
        statistics_dtype(q.dtype), rows, in[i]);
  for (size_t i = 1; i <= (p.heads > 0 ? 1 : 3); ++i) {
    out.add(in[i].shape, in[i].dtype);
    const int at = out.size() - 1;
    out[at].strides = dense_like(in[i].shape, p.heads == 0 && queries_first(in[i]));
  }
}

// The same by other ops, with the scores in memory.

struct Composed {
  Tensor q, k, v;  // k and v of each head of the queries
  Tensor scores;   // with what the mask adds
  Tensor seen;     // bool; undefined where every query looks at every key
  Tensor dropped;  // 0 or 1 / (1 - p); undefined without dropout
};

/// Each head of k or v as often as queries' heads use it.
Tensor repeat_heads(const Tensor& x, int64_t times) {
  if (times == 1) return x;
  const Shape s = x.shape();
  return reshape(expand(unsqueeze(x, 2), {s[0], s[1], times, s[2], s[3]}),
                 {s[0], s[1] * times, s[2], s[3]});
}

Tensor and_also(const Tensor& a, const Tensor& b) { return a.defined() ? logical_and(a, b) : b; }

Composed compose(const AttentionParams& p, std::span<const Tensor> in, const AttentionInputs& at) {
  Composed c;
  c.q = in[at.q];
  c.k = in[at.k];
  c.v = in[at.v];
  if (p.heads > 0) {
    const Tensor all = permute(in[at.q], {0, 2, 1, 3});
    c.q = narrow(all, 1, 0, p.heads);
    c.k = narrow(all, 1, p.heads, p.kv_heads);
    c.v = narrow(all, 1, p.heads + p.kv_heads, p.kv_heads);
  }
  if (c.k.size(1) > 0) {
    c.v = repeat_heads(c.v, c.q.size(1) / c.k.size(1));
    c.k = repeat_heads(c.k, c.q.size(1) / c.k.size(1));
  }
  c.scores = matmul(c.q * p.scale, swapaxes(c.k, -2, -1));
  const int64_t queries = c.q.size(2);
  const int64_t keys = c.k.size(2);
  const TensorOptions i64 = {.dtype = DType::i64, .device = c.q.device()};
  const Tensor key = arange(keys, i64);
  Tensor length;  // (B, 1, 1, 1)
  if (in[at.lengths].defined()) {
    length = reshape(
        clamp(cast(in[at.lengths], DType::i64), {.low = 0, .high = static_cast<double>(keys)}),
        {-1, 1, 1, 1});
    c.seen = lt(key, length);
  }
  if (p.left >= 0 || p.right >= 0) {
    Tensor own = unsqueeze(arange(queries, i64), 1);
    if (p.bottom_right && length.defined())
      own = own + length - queries;
    else if (p.bottom_right)
      own = own + (keys - queries);
    if (p.left >= 0) c.seen = and_also(c.seen, ge(key, own - p.left));
    if (p.right >= 0) c.seen = and_also(c.seen, le(key, own + p.right));
  }
  const Tensor& mask = in[at.mask];
  if (mask.defined() && mask.dtype() == DType::boolean) {
    c.seen = and_also(c.seen, mask);
  } else if (mask.defined()) {
    const double hidden = -std::numeric_limits<double>::infinity();
    c.seen = and_also(c.seen, gt(mask.detach(), hidden));
    c.scores = c.scores + where(gt(mask.detach(), hidden), mask, 0.0);
  }
  if (p.dropout > 0)
    c.dropped = where(gt(dispatch(dropout_op(), DropoutParams{p.dropout},
                                  {ones(c.scores.shape(), {c.scores.dtype(), c.scores.device()}),
                                   in[at.counter], Tensor()})[0],
                         0.0),
                      full({}, 1 / (1 - p.dropout), {c.scores.dtype(), c.scores.device()}), 0.0);
  return c;
}

/// exp(scores - lse), 0 where a query does not look. lse: (B, H, L), finite.
Tensor weights_of(const Composed& c, const Tensor& lse) {
  const Tensor shifted = c.scores - unsqueeze(lse, -1);
  if (!c.seen.defined()) return exp(shifted);
  return where(c.seen, exp(where(c.seen, shifted, 0.0)), 0.0);
}

Tensor finite_or_zero(const Tensor& lse) { return where(isfinite(lse), lse, 0.0); }

Tensors compose_forward(const AttentionParams& p, std::span<const Tensor> in) {
  const Composed c = compose(p, in, kAttentionInputs);
  constexpr double kHidden = -1e30;
  const Tensor scores = c.seen.defined() ? where(c.seen, c.scores, kHidden) : c.scores;
  const Tensor lse = logsumexp(scores, {-1});
  Tensor weights = weights_of(c, lse);
  if (c.dropped.defined()) weights = weights * c.dropped;
  return {matmul(weights, c.v), lse};
}

/// The sum over the heads that share one of the keys.
Tensor sum_groups(const Tensor& x, int64_t kv_heads) {
  const Shape s = x.shape();
  if (s[1] == kv_heads || kv_heads == 0) return x;
  return sum(reshape(x, {s[0], kv_heads, s[1] / kv_heads, s[2], s[3]}), {2});
}

Tensors compose_grad(const AttentionParams& p, std::span<const Tensor> in) {
  const Composed c = compose(p, in, kAttentionGradInputs);
  const Tensor& dy = in[0];
  const Tensor weights = weights_of(c, finite_or_zero(in[kAttentionGradLse]));
  const Tensor used = c.dropped.defined() ? weights * c.dropped : weights;
  Tensor dweights = matmul(dy, swapaxes(c.v, -2, -1));
  if (c.dropped.defined()) dweights = dweights * c.dropped;
  Tensor delta = sum(dy * in[kAttentionGradY], {-1}, true);
  if (in[kAttentionGradDlse].defined()) delta = delta - unsqueeze(in[kAttentionGradDlse], -1);
  const Tensor dscores = weights * (dweights - delta);
  const int64_t kv_heads = p.heads > 0 ? p.kv_heads : in[2].size(1);
  const Tensor dq = matmul(dscores, c.k) * p.scale;
  const Tensor dk = sum_groups(matmul(swapaxes(dscores, -2, -1), c.q) * p.scale, kv_heads);
  const Tensor dv = sum_groups(matmul(swapaxes(used, -2, -1), dy), kv_heads);
  if (p.heads == 0) return {dq, dk, dv};
  return {permute(concat({dq, dk, dv}, 1), {0, 2, 1, 3})};
}

Tensors vjp(const AttentionParams& p, const VjpArgs& a) {
  Tensors grads(a.in_specs.size());
  const bool operands = a.needs(0) || a.needs(1) || a.needs(2);
  if (operands) {
    // The gradient of v alone reads neither v nor y.
    const auto or_zeros = [](const Tensor& x, const TensorSpec& spec) {
      return x.defined() || !spec.defined ? x : zeros(spec.shape, {spec.dtype, spec.device});
    };
    const Outputs out = dispatch(
        attention_grad_op(), p,
        {or_zeros(a.grad[0], a.out_specs[0]), a.in[0], a.in[1], or_zeros(a.in[2], a.in_specs[2]),
         or_zeros(a.out[0], a.out_specs[0]), a.out[1], a.in[3], a.in[4], a.in[5], a.grad[1]});
    for (int i = 0; i < (p.heads > 0 ? 1 : 3); ++i)
      if (a.needs(i)) grads[static_cast<size_t>(i)] = out[i];
  }
  if (a.needs(3)) {  // of what is added to the scores: that is as large as they are
    grads[3] =
        differentiate([&](std::span<const Tensor> in) { return compose_forward(p, in); }, a)[3];
  }
  return grads;
}

double flops(const AttentionParams& p, const Specs& s) {
  const AttentionProblem a = attention_problem(p, s);
  const double seen = p.right == 0 ? 0.5 : 1;
  return 2 * seen * static_cast<double>(a.batch * a.heads) *
         static_cast<double>(a.queries * a.keys) * static_cast<double>(a.width + a.value_width);
}
double flops_grad(const AttentionParams& p, const Specs& s) {
  const AttentionProblem a = attention_grad_problem(p, s);
  const double seen = p.right == 0 ? 0.5 : 1;
  return 2 * seen * static_cast<double>(a.batch * a.heads) *
         static_cast<double>(a.queries * a.keys) *
         static_cast<double>(3 * a.width + 2 * a.value_width);
}

}  // namespace

const OpDef& attention_op() {
  static OpDef def =
      Op<AttentionParams>("attention")
          .inputs({"q", "k?", "v?", "mask?", "lengths?", "counter?"})
          .outputs({"y", "lse"})
          .precision(Precision::low)
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({.in = {0, 1, {2, {0, 1, 3}}, 3, 4, 5}, .out = {{0, {0, 1}}, {1, {0, 1, 2}}}})
          .flops<flops>()
          .cpu({attention_tiled_kernel(), attention_reference_kernel()})
          .build();
  return def;
}

const OpDef& attention_grad_op() {
  static OpDef def =
      Op<AttentionParams>("attention_grad")
          .inputs({"dy", "q", "k?", "v?", "y", "lse", "mask?", "lengths?", "counter?", "dlse?"})
          .outputs({"dq", "dk?", "dv?"})
          .dtypes(kFloatDTypes)
          .infer<infer_grad>()
          .vjp<vjp_by<compose_grad, AttentionParams>>({.in = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}})
          .flops<flops_grad>()
          .cpu({attention_grad_tiled_kernel(), attention_grad_reference_kernel()})
          .build();
  return def;
}

}  // namespace mica

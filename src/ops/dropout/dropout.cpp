#include "mica/ops/dropout/dropout.h"

#include <cmath>

#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/op/pattern.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/random/cpu.h"
#include "mica/ops/random/random.h"

namespace mica {

const OpDef& dropout_op();

namespace {

void infer(const DropoutParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check(p.p >= 0 && p.p < 1, "dropout: p must be in [0, 1), got {}", p.p);
  check<ShapeError>(in[1].dtype == DType::i64 && in[1].shape == Shape{2} && in[1].is_contiguous(),
                    "dropout: the counter must be i64[2], got {}", in[1]);
  if (in[2].defined) {
    check<ShapeError>(in[2].shape == in[0].shape, "dropout: relu's result must be {}, got {}",
                      in[0].shape, in[2].shape);
    check<DTypeError>(in[2].dtype == in[0].dtype, "dropout: relu's result must be {}, got {}",
                      in[0].dtype, in[2].dtype);
  }
  out.add(in[0].shape, in[0].dtype);
}

Tensor apply(const DropoutParams& p, const Tensor& x, const Tensor& counter) {
  return dispatch(dropout_op(), p, {x, counter, Tensor()})[0];
}

Tensors vjp(const DropoutParams& p, const VjpArgs& a) {
  const Tensor g = a.in[2].defined() ? relu_grad(a.grad[0], a.in[2]) : a.grad[0];
  return {apply(p, g, a.in[1]), Tensor(), Tensor()};
}

/// Offset of the element with row-major index i.
int64_t strided_offset(const Shape& shape, const Strides& strides, int64_t i) {
  int64_t at = 0;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at += i % shape[axis] * strides[axis];
    i /= shape[axis];
  }
  return at;
}

/// The mask depends on the logical index alone, so every layout drops the same elements.
void run(const DropoutParams& p, const Call& c) {
  const Arg& in = c.in[0];
  const Arg& out = c.out[0];
  const int64_t n = in.numel();
  if (n == 0) return;
  // unit_float(word) >= p, asked of the 24 bits it is made of.
  const auto limit = static_cast<int32_t>(std::ceil(static_cast<float>(p.p) * 16777216.0F));
  const Arg& relu = c.in[2];
  const bool dense = in.spec->is_contiguous() && out.spec->is_contiguous() &&
                     (!relu.defined() || relu.spec->is_contiguous());
  const int64_t length = dense ? n : in.shape().back();
  const int64_t in_step = dense ? 1 : in.strides().back();
  const int64_t out_step = dense ? 1 : out.strides().back();
  const int64_t relu_step = dense || !relu.defined() ? 1 : relu.strides().back();
  switch_float(in.dtype(), "dropout", [&]<class T>() {
    using C = Compute<T>;
    const auto scale = static_cast<C>(static_cast<float>(1.0 / (1.0 - p.p)));
    const auto drop = [limit, scale](T x, uint32_t word) {
      const C kept = static_cast<C>(x) * scale;
      return static_cast<T>(static_cast<int32_t>(word >> 8) >= limit ? kept : C(0));
    };
    for_words(c.in[1].as<int64_t>(), n, [&, drop](int64_t i, const uint32_t* words, int64_t count) {
      // Runs along the last axis.
      for (const uint32_t* end = words + count; words < end;) {
        const int64_t run = std::min<int64_t>(end - words, length - i % length);
        const T* from = in.as<T>() + (dense ? i : strided_offset(in.shape(), in.strides(), i));
        T* to = out.as<T>() + (dense ? i : strided_offset(out.shape(), out.strides(), i));
        if (relu.defined()) {
          const T* y = relu.as<T>() + (dense ? i : strided_offset(relu.shape(), relu.strides(), i));
          for (int64_t k = 0; k < run; ++k)
            to[k * out_step] = static_cast<C>(y[k * relu_step]) > C(0)
                                   ? drop(from[k * in_step], words[k])
                                   : static_cast<T>(C(0));
        } else if (in_step == 1 && out_step == 1) {
          for (int64_t k = 0; k < run; ++k) to[k] = drop(from[k], words[k]);
        } else {
          for (int64_t k = 0; k < run; ++k) to[k * out_step] = drop(from[k * in_step], words[k]);
        }
        words += run;
        i += run;
      }
    });
  });
}

/// The gradient of relu before a dropout, with that of the dropout.
std::optional<MatchedCall> join_relu_gradient(const Match& match) {
  MatchedCall dropout = match.calls[1];
  if (dropout.in[2] >= 0) return std::nullopt;
  dropout.in[2] = match.calls[0].in[1];
  dropout.out = match.calls[0].out;
  return dropout;
}

}  // namespace

Patterns dropout_patterns() {
  enum { kDropped };
  return {{{{"relu_grad", {kDropped}}, {"dropout", {}, {kDropped}}}, join_relu_gradient}};
}

const OpDef& dropout_op() {
  static OpDef def = Op<DropoutParams>("dropout")
                         .inputs({"x", "counter", "relu?"})
                         .formats({Format::images}, {Format::images})
                         .dtypes(kFloatDTypes)
                         .infer<infer>()
                         .vjp<vjp>({.in = {1, 2}})
                         .cpu({kernel<supports_all<DropoutParams>, run>("counter")})
                         .build();
  return def;
}

Tensor dropout(const Tensor& x, double p, bool training) {
  if (!training || p == 0) return x;
  return apply({p}, x, rng_take(x.numel(), x.device()));
}

Functions dropout_functions() {
  return {{.name = "dropout",
           .doc = "input with each element zero with probability p, in [0, 1), and the others "
                  "times 1 / (1 - p); input itself unless training.",
           .signatures = {{dropout, {"input", {"p", 0.5}, {"training", true}, ignored_inplace()}}},
           .offer = kFunctional}};
}

}  // namespace mica

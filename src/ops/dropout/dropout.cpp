#include "mica/ops/dropout/dropout.h"

#include "mica/op/dispatch.h"
#include "mica/ops/random/cpu.h"
#include "mica/ops/random/random.h"

namespace mica {
namespace {

void infer(const DropoutParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check(p.p >= 0 && p.p < 1, "dropout: p must be in [0, 1), got {}", p.p);
  check<DTypeError>(is_floating(in[0].dtype), "dropout: expected a floating dtype, got {}",
                    in[0].dtype);
  check<ShapeError>(in[1].dtype == DType::i64 && in[1].shape == Shape{2} && in[1].is_contiguous(),
                    "dropout: the counter must be i64[2], got {}", in[1]);
  out.add(in[0].shape, in[0].dtype);
}

Tensor apply(const DropoutParams& p, const Tensor& x, const Tensor& counter);

Tensors vjp(const DropoutParams& p, const VjpArgs& a) {
  return {apply(p, a.grad[0], a.in[1]), Tensor()};
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
  const auto threshold = static_cast<float>(p.p);
  const auto scale = static_cast<float>(1.0 / (1.0 - p.p));
  const bool dense = in.spec->is_contiguous() && out.spec->is_contiguous();
  const int64_t n = in.numel();
  switch_float(in.dtype(), "dropout", [&]<class T>() {
    for_blocks(c.in[1].as<int64_t>(), n, [&](int64_t i, const Philox4& block) {
      for (int64_t lane = 0; lane < std::min<int64_t>(4, n - i); ++lane) {
        const int64_t from = dense ? i + lane : strided_offset(in.shape(), in.strides(), i + lane);
        const int64_t to = dense ? i + lane : strided_offset(out.shape(), out.strides(), i + lane);
        const bool keep = unit_float(block.v[lane]) >= threshold;
        const auto x = static_cast<Compute<T>>(in.as<T>()[from]);
        out.as<T>()[to] = static_cast<T>(keep ? x * static_cast<Compute<T>>(scale) : Compute<T>(0));
      }
    });
  });
}

}  // namespace

const OpDef& dropout_op() {
  static OpDef def = Op<DropoutParams>("dropout")
                         .infer<infer>()
                         .vjp<vjp>({.in = {1}})
                         .cpu({kernel<supports_all<DropoutParams>, run>("counter")})
                         .build();
  return def;
}

namespace {

Tensor apply(const DropoutParams& p, const Tensor& x, const Tensor& counter) {
  return dispatch(dropout_op(), p, {x, counter})[0];
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  if (!training || p == 0) return x;
  return apply({p}, x, rng_take(x.numel(), x.device()));
}

}  // namespace mica

#include "mica/ops/where/where.h"

#include <cmath>

#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/calls.h"
#include "mica/ops/elementwise/cpu.h"
#include "mica/ops/elementwise/elementwise.h"

namespace mica {
namespace {

using namespace elementwise;

void infer_where(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check(in[1].defined && in[2].defined, "where: both values must be defined");
  check<DTypeError>(in[1].dtype == in[2].dtype, "where: values must have one dtype, got {} and {}",
                    in[1].dtype, in[2].dtype);
  const Shape values = broadcast_shapes(in[1].shape, in[2].shape, "where");
  out.add(broadcast_shapes(in[0].shape, values, "where"), in[1].dtype);
}

Tensors vjp_where(const NoParams&, const VjpArgs& a) {
  const Tensor& condition = a.in[0];
  return {Tensor(), for_input(a, 1, [&] { return where(condition, a.grad[0], 0.0); }),
          for_input(a, 2, [&] { return where(condition, 0.0, a.grad[0]); })};
}

std::shared_ptr<LoopState<4>> prepare_where(const NoParams&, const Specs& s) {
  const Shape& shape = s.out[0].shape;
  return std::make_shared<LoopState<4>>(StridedLoop<4>(
      shape, {s.out[0].strides, broadcast_strides(s.in[0], shape),
              broadcast_strides(s.in[1], shape), broadcast_strides(s.in[2], shape)}));
}

/// Values move as they are: one loop for each size serves all dtypes.
template <class Bits>
void choose(const StridedLoop<4>& loop, const Call& c) {
  const int64_t so = loop.inner_stride(0);
  const int64_t sc = loop.inner_stride(1);
  const int64_t sa = loop.inner_stride(2);
  const int64_t sb = loop.inner_stride(3);
  loop.each_run([&](const std::array<int64_t, 4>& at, int64_t n) {
    Bits* out = c.out[0].as<Bits>() + at[0];
    const auto* condition = c.in[0].as<uint8_t>() + at[1];
    const Bits* a = c.in[1].as<Bits>() + at[2];
    const Bits* b = c.in[2].as<Bits>() + at[3];
    if (so == 1 && sc == 1 && sa == 1 && sb == 1) {
      for (int64_t i = 0; i < n; ++i) {
        const Bits u = a[i];  // read both: then the loop has no branch
        const Bits v = b[i];
        out[i] = condition[i] ? u : v;
      }
    } else if (so == 1 && sc == 1 && sa == 1 && sb == 0) {
      const Bits value = *b;
      for (int64_t i = 0; i < n; ++i) out[i] = condition[i] ? a[i] : value;
    } else if (so == 1 && sc == 1 && sa == 0 && sb == 1) {
      const Bits value = *a;
      for (int64_t i = 0; i < n; ++i) out[i] = condition[i] ? value : b[i];
    } else {
      for (int64_t i = 0; i < n; ++i) out[i * so] = condition[i * sc] ? a[i * sa] : b[i * sb];
    }
  });
}

void run_where(const NoParams&, const LoopState<4>& state, const Call& c) {
  switch (size_of(c.out[0].dtype())) {
    case 8:
      return choose<uint64_t>(state.loop, c);
    case 4:
      return choose<uint32_t>(state.loop, c);
    case 2:
      return choose<uint16_t>(state.loop, c);
    default:
      return choose<uint8_t>(state.loop, c);
  }
}

Tensors vjp_clamp(const ClampParams& p, const VjpArgs& a) {
  const Tensor& x = a.in[0];
  return {where(logical_and(ge(x, p.low), le(x, p.high)), a.grad[0], 0.0)};
}

}  // namespace

const OpDef& where_op() {
  static OpDef def = Op<NoParams>("where")
                         .dtypes(kBoolDType)
                         .infer<infer_where>()
                         .vjp<vjp_where>({.in = {0}})
                         .elementwise(3)
                         .cpu({kernel<supports_all<NoParams>, prepare_where, run_where>("strided")})
                         .build();
  return def;
}

const OpDef& clamp_op() {
  static OpDef def = elementwise_op<ClampParams, 1, Takes::all>("clamp")
                         .dtypes(kNumberDTypes)
                         .vjp<vjp_clamp>({.in = {0}})
                         .build();
  return def;
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const DType t = promote(a.dtype(), b.dtype());
  return dispatch(where_op(), NoParams{}, {condition, cast(a, t), cast(b, t)})[0];
}
Tensor where(const Tensor& condition, const Tensor& a, double b) {
  return where(condition, a, number(b, a));
}
Tensor where(const Tensor& condition, double a, const Tensor& b) {
  return where(condition, number(a, b), b);
}

Tensor clamp(const Tensor& x, const ClampParams& params) {
  check(params.low == params.low && params.high == params.high,
        "clamp: bounds must be numbers, got {} and {}", params.low, params.high);
  if (!is_floating(x.dtype())) {
    for (const double bound : {params.low, params.high})
      check<DTypeError>(bound == std::floor(bound),
                        "clamp: bounds of {} must be whole numbers, got {}", x.dtype(), bound);
  }
  return dispatch(clamp_op(), params, {x})[0];
}
Tensor clamp(const Tensor& x, double low, double high) {
  return clamp(x, ClampParams{.low = low, .high = high});
}
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  return minimum(maximum(x, low), high);
}

}  // namespace mica

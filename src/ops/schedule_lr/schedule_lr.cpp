#include "mica/ops/schedule_lr/schedule_lr.h"

#include <cstring>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"

namespace mica {
namespace {

void check_curve(const TensorSpec& spec) {
  check<ShapeError>(spec.shape == Shape{kRateCurveNumbers} && spec.dtype == DType::f64,
                    "schedule_lr: the curve must be f64[{}], got {}", kRateCurveNumbers, spec);
}

RateCurve curve_from(const void* numbers) {
  RateCurve curve;
  std::memcpy(static_cast<void*>(&curve), numbers, sizeof curve);
  return curve;
}

void infer(const NoParams&, std::span<const TensorSpec> in, OutSpecs&) {
  check_curve(in[0]);
  check<ShapeError>(in[1].rank() == 1 && in[1].dtype == DType::f64,
                    "schedule_lr: base_lr must be f64[groups], got {}", in[1]);
  check<ShapeError>(in[2].rank() == 0 && in[2].dtype == DType::i64,
                    "schedule_lr: steps must be i64[], got {}", in[2]);
  check<ShapeError>(in[3].shape == in[1].shape && in[3].dtype == DType::f64,
                    "schedule_lr: lr must be like base_lr {}, got {}", in[1], in[3]);
  for (const TensorSpec& spec : in)
    check(spec.is_contiguous(), "schedule_lr: expected dense tensors, got {}", spec);
}

bool mutates(const NoParams&, int input, int) { return input >= 2; }

void run(const NoParams&, const Call& c) {
  const RateCurve curve = curve_from(c.in[0].data);
  auto* steps = c.in[2].as<int64_t>();
  for (int64_t g = 0; g < c.in[1].numel(); ++g)
    c.in[3].as<double>()[g] = rate_at(curve, c.in[1].as<double>()[g], *steps);
  ++*steps;
}

}  // namespace

const OpDef& schedule_lr_op() {
  static OpDef def = Op<NoParams>("schedule_lr")
                         .inputs({"curve", "base_lr", "steps", "lr"})
                         .outputs({})
                         .infer<infer>()
                         .mutates<mutates>()
                         .no_gradient("it is an update")
                         .cpu({kernel<supports_all<NoParams>, run>("reference")})
                         .build();
  return def;
}

Tensor to_tensor(const RateCurve& curve, Device device) {
  return tensor_from_bytes(&curve, {kRateCurveNumbers}, {DType::f64, device});
}

RateCurve to_rate_curve(const Tensor& numbers) {
  check_curve(numbers.spec());
  return curve_from(numbers.to_vector<double>().data());
}

void schedule_lr(const Tensor& curve, const Tensor& base_lr, const Tensor& steps,
                 const Tensor& lr) {
  dispatch(schedule_lr_op(), NoParams{}, {curve, base_lr, steps, lr});
}

}  // namespace mica

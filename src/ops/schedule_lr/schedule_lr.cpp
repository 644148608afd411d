#include "mica/ops/schedule_lr/schedule_lr.h"

#include <cstring>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/schedule_lr/rate_at.h"

namespace mica {
namespace {

const Shape kShape = {kRateCurves, kRateCurveNumbers};

void check_curve(const TensorSpec& spec) {
  check<ShapeError>(spec.shape == kShape && spec.dtype == DType::f64,
                    "schedule_lr: the curve must be f64{}, got {}", kShape, spec);
}

void infer(const NoParams&, std::span<const TensorSpec> in, OutSpecs&) {
  check_curve(in[0]);
  check<ShapeError>(in[1].rank() == 1 && in[1].dtype == DType::f64,
                    "schedule_lr: base_lr must be f64[groups], got {}", in[1]);
  check<ShapeError>(!in[2].defined || (in[2].rank() == 0 && in[2].dtype == DType::boolean),
                    "schedule_lr: where must be bool[], got {}", in[2]);
  for (const size_t i : {3, 4})
    check<ShapeError>(in[i].rank() == 0 && in[i].dtype == DType::i64,
                      "schedule_lr: {} must be i64[], got {}", i == 3 ? "steps" : "number", in[i]);
  check<ShapeError>(in[5].shape == in[1].shape && in[5].dtype == DType::f64,
                    "schedule_lr: lr must be like base_lr {}, got {}", in[1], in[5]);
  for (const TensorSpec& spec : in)
    check(!spec.defined || spec.is_contiguous(), "schedule_lr: expected dense tensors, got {}",
          spec);
}

bool mutates(const NoParams&, int input, int) { return input >= 3; }

void run(const NoParams&, const Call& c) {
  auto& number = *c.in[4].as<int64_t>();
  if (c.in[2].defined() && !*c.in[2].as<bool>()) {
    number = 0;
    return;
  }
  auto& steps = *c.in[3].as<int64_t>();
  for (int64_t g = 0; g < c.in[1].numel(); ++g)
    c.in[5].as<double>()[g] =
        rate_at(c.in[0].as<const RateCurve>(), kRateCurves, c.in[1].as<double>()[g], steps);
  number = ++steps;
}

}  // namespace

const OpDef& schedule_lr_op() {
  static OpDef def = Op<NoParams>("schedule_lr")
                         .inputs({"curve", "base_lr", "where?", "steps", "number", "lr"})
                         .outputs({})
                         .infer<infer>()
                         .mutates<mutates>()
                         .no_gradient("it is an update")
                         .cpu({kernel<supports_all<NoParams>, run>("reference")})
                         .build();
  return def;
}

Tensor to_tensor(std::span<const RateCurve> pieces, Device device) {
  check(pieces.size() <= kRateCurves, "schedule_lr: expected at most {} pieces, got {}",
        static_cast<int>(kRateCurves), pieces.size());
  RateCurve all[kRateCurves];
  std::copy(pieces.begin(), pieces.end(), all);
  return tensor_from_bytes(all, kShape, {DType::f64, device});
}

std::vector<RateCurve> to_rate_curves(const Tensor& numbers) {
  check_curve(numbers.spec());
  const std::vector<double> values = numbers.to_vector<double>();
  std::vector<RateCurve> pieces(kRateCurves);
  std::memcpy(static_cast<void*>(pieces.data()), values.data(), values.size() * sizeof(double));
  while (!pieces.empty() && pieces.back() == RateCurve()) pieces.pop_back();
  return pieces;
}

void schedule_lr(const Tensor& curve, const Tensor& base_lr, const StepCount& count,
                 const Tensor& lr, const Tensor& where) {
  dispatch(schedule_lr_op(), NoParams{}, {curve, base_lr, where, count.steps, count.number, lr});
}

}  // namespace mica

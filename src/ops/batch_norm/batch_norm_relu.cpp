#include "mica/ops/batch_norm/batch_norm_relu.h"

#include "mica/autograd/function.h"
#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/anchored/anchored.h"
#include "mica/ops/batch_norm/statistics.h"
#include "mica/ops/elementwise/elementwise.h"

namespace mica {

const OpDef& batch_norm_op();

namespace {

AnchoredParams forward_of(const BatchNormParams& params) {
  return {intern(Anchored{.op = &batch_norm_op(),
                          .params = AnyParams(ParamsRef::of(params)),
                          .after = intern(program_of(Activation::relu))})};
}

Tensors gradients(const BatchNormParams& params, const Tensors& saved, const Tensor& dy) {
  const Tensor& x = saved[0];
  const Tensor& weight = saved[1];
  const Tensor& bias = saved[2];
  // To be differentiated again, they are those of the two calls.
  if (grad_enabled())
    return grad(Tensors{relu(batch_norm(x, weight, bias, {}, {}, params))}, {x, weight, bias}, {dy},
                {.create_graph = true});
  const Tensor& mean = saved[3];
  const Tensor& invstd = saved[4];
  const AnchoredParams backward{intern(batch_norm_grad_of_relu(params, x.dtype(), true, true))};
  const Outputs out = dispatch(anchored_op(), backward,
                               {dy, x, weight, mean, invstd, x, mean, invstd, weight, bias});
  return {out[0], out[1], out[2]};
}

}  // namespace

Tensor batch_norm_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var,
                       const BatchNormParams& params) {
  check(params.training && weight.defined() && bias.defined(),
        "batch_norm_relu: expected training, weight and bias");
  return call_function(
      "batch_norm_relu", {x, weight, bias},
      [&](FunctionContext& c) -> Tensors {
        const Outputs out = dispatch(anchored_op(), forward_of(params),
                                     {x, weight, bias, running_mean, running_var});
        c.save({x, weight, bias, out[1], out[2]});
        return {out[0]};
      },
      [params](FunctionContext& c, const Tensors& cotangents) {
        return gradients(params, c.saved(), cotangents[0]);
      })[0];
}

}  // namespace mica

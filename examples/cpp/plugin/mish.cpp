// The operator mish_beta(x, beta) = x tanh(log(1 + exp(beta x)) / beta) with its gradient, as a
// plugin.
#include <mica/mica.h>
#include <mica/op/dispatch.h>
#include <mica/op/op_def.h>

#include <cmath>

namespace {

using namespace mica;

struct MishParams {
  double beta = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("beta", self.beta);
  }
};

/// Checks the arguments, and says what comes out.
void infer(const MishParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  if (!(p.beta > 0)) throw Error("mish_beta: beta must be positive, got " + std::to_string(p.beta));
  out.add(in[0].shape, in[0].dtype);
}

/// The kernel: dense f32 and f64 in, the same out.
void run(const MishParams& p, const Call& call) {
  const auto compute = [&]<class T>(const T* x, T* y) {
    const T beta = static_cast<T>(p.beta);
    for (int64_t i = 0; i < call.out[0].numel(); ++i)
      y[i] = x[i] * std::tanh(std::log1p(std::exp(beta * x[i])) / beta);
  };
  if (call.in[0].dtype() == DType::f64) {
    compute(call.in[0].as<double>(), call.out[0].as<double>());
  } else {
    compute(call.in[0].as<float>(), call.out[0].as<float>());
  }
}

Support supports(const MishParams&, const Specs& specs) {
  const DType dtype = specs.in[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return Support::no("computes f32 and f64");
  return Support::yes().with_contiguous(1);
}

/// The gradient is written with operators, so that it can be differentiated again.
Tensors gradient(const MishParams& p, const VjpArgs& a) {
  const Tensor& x = a.in[0];
  const Tensor t = tanh(log1p(exp(x * p.beta)) / p.beta);
  return {a.grad[0] * (t + x * (1 - square(t)) * sigmoid(x * p.beta))};
}

const OpDef& mish_op() {
  static const OpDef& op = register_op("mish_beta", Op<MishParams>("mish_beta")
                                                        .inputs({"x"})
                                                        .dtypes(kFloatDTypes)
                                                        .infer<infer>()
                                                        .vjp<gradient>({.in = {0}})
                                                        .cpu({kernel<supports, run>("direct")})
                                                        .build());
  return op;
}

}  // namespace

/// What the program asks for by name.
extern "C" __attribute__((visibility("default"))) void plugin_mish(const Tensor& x, double beta,
                                                                   Tensor& result) {
  result = dispatch(mish_op(), MishParams{beta}, {x})[0];
}

// The operator mish_beta(x, beta) = x tanh(log(1 + exp(beta x)) / beta) with its gradient and
// kernels for the CPU and for CUDA, as a plugin: a library that mica::load_ops and mica.load_ops
// open.
#include <mica/custom/kernel.h>
#include <mica/kernels.h>
#include <mica/mica.h>
#include <mica/op/dispatch.h>

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

/// On CUDA a kernel from source, so that the plugin needs no CUDA compiler. One of nvcc would be
/// launched on `call.encoder`'s stream alike.
constexpr const char* kSource = R"(
extern "C" __global__ void mish_beta(const float* x, float* y, float beta, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * tanhf(log1pf(expf(beta * x[i])) / beta);
})";

struct CudaState : KernelState {
  cuda::Kernel kernel{kSource, "mish_beta"};
};

Support supports_cuda(const MishParams&, const Specs& specs) {
  if (specs.in[0].dtype != DType::f32) return Support::no("computes f32");
  return Support::yes().with_contiguous(1);
}

std::shared_ptr<CudaState> prepare_cuda(const MishParams&, const Specs&) {
  return std::make_shared<CudaState>();
}

void run_cuda(const MishParams& p, const CudaState& state, const Call& call) {
  const int64_t n = call.out[0].numel();
  const auto blocks = static_cast<uint32_t>((n + 255) / 256);
  const auto at = [](const Arg& arg) {
    return from_blob(arg.as<float>(), arg.shape(), arg.strides(), {}, arg.spec->device);
  };
  state.kernel({{blocks}, {256}}, at(call.in[0]), at(call.out[0]), p.beta, n);
}

const OpDef* g_mish = nullptr;

Tensor mish_beta(const Tensor& x, double beta) {
  return dispatch(*g_mish, MishParams{beta}, {x})[0];
}

}  // namespace

MICA_REGISTER_OPS(registry) {
  OpDef def = Op<MishParams>("mish_beta")
                  .inputs({"x"})
                  .dtypes(kFloatDTypes)
                  .infer<infer>()
                  .vjp<gradient>({.in = {0}})
                  .cpu({kernel<supports, run>("direct")})
                  .build();
  def.kernels[static_cast<size_t>(DeviceKind::cuda)] = {
      kernel<supports_cuda, prepare_cuda, run_cuda>("source")};
  g_mish = &registry.add(std::move(def));
  // What programs call by name, Python among them.
  registry.add(Function{.name = "mish_beta",
                        .doc = "input * tanh(softplus(beta * input) / beta) of each element.",
                        .signatures = {{mish_beta, {"input", {"beta", 1.0}}}}});
}

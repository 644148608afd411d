#include "mica/ops/conv2d/cuda_trial.h"

#include <cuda_runtime.h>

#include <limits>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/timing.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

/// In every byte: 0.0115 in f32 and bf16, 1.06 in f16.
constexpr int kFill = 0x3c;
/// What the host may add to a warm-up's time, in microseconds.
constexpr double kHostPart = 200;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kOutput = 3;

Encoder* encoder_of(const ConvProblem& p) { return runtime(DeviceKind::cuda).encoder(p.device); }

}  // namespace

const char* ConvProblem::op() const {
  if (pass == ConvPass::forward) return "conv2d";
  return pass == ConvPass::dgrad ? "conv2d_dgrad" : "conv2d_wgrad";
}

ConvTrial::ConvTrial(const ConvProblem& problem) : problem_(problem) {
  const Device device = Device::cuda(problem.device);
  const auto add = [&](size_t i, const Shape& shape, bool channels_last) {
    specs_[i] = TensorSpec::contiguous(shape, problem.dtype, device);
    if (channels_last) specs_[i].strides = channels_last_strides(shape);
    const size_t bytes = static_cast<size_t>(numel(shape)) * size_of(problem.dtype);
    memory_[i] = make_ref<Storage>(bytes, device);
    check_cuda(cudaMemsetAsync(memory_[i]->data(), kFill, bytes, encoder_of(problem)->stream()));
  };
  const bool last = problem.channels_last;
  switch (problem.pass) {
    case ConvPass::forward:
      add(0, problem.x(), last);
      add(1, problem.weight(), last);
      if (problem.bias) add(2, {problem.geometry.o}, false);
      add(kOutput, problem.y(), last);
      break;
    case ConvPass::dgrad:
      add(0, problem.y(), last);
      add(1, problem.weight(), last);
      add(kOutput, problem.x(), last);
      break;
    case ConvPass::wgrad:
      add(0, problem.y(), last);
      add(1, problem.x(), last);
      add(kOutput, problem.weight(), false);
      break;
  }
}

double ConvTrial::microseconds(size_t workspace_bytes, const std::function<void(const Call&)>& run,
                               double best) const {
  try {
    const auto workspace = make_ref<Storage>(workspace_bytes, Device::cuda(problem_.device));
    std::array<Arg, 4> args;
    for (size_t i = 0; i < args.size(); ++i)
      args[i] = {memory_[i] ? memory_[i]->data() : nullptr, &specs_[i]};
    const Call call{
        {args.data(), kOutput}, {&args[kOutput], 1}, workspace->data(), encoder_of(problem_)};
    return device_microseconds(problem_.device, [&] { run(call); }, 4 * best + kHostPart);
  } catch (const Error& e) {
    if (verbose_dispatch()) fmt::print(stderr, "mica: {}: {}\n", problem_.op(), e.what());
    return kNever;
  }
}

double ConvTrial::direct_microseconds(double best) const {
  const bool forward = problem_.pass == ConvPass::forward;
  const bool dgrad = problem_.pass == ConvPass::dgrad;
  const Kernel kernel = forward ? conv2d_direct_kernel()
                        : dgrad ? conv2d_dgrad_direct_kernel()
                                : conv2d_wgrad_direct_kernel();
  const Conv2dGeometry& g = problem_.geometry;
  const Conv2dParams conv{g.stride, g.padding, g.dilation, g.groups};
  const Conv2dGradParams gradient{conv, dgrad ? problem_.x() : problem_.weight()};
  const void* params = forward ? static_cast<const void*>(&conv) : &gradient;
  const Specs specs{{specs_.data(), kOutput}, {&specs_[kOutput], 1}};
  if (kernel.supports(params, specs).kind == Support::Kind::no) return kNever;
  const auto state = kernel.prepare(params, specs);
  return microseconds(
      state->workspace_bytes, [&](const Call& call) { kernel.run(params, *state, call); }, best);
}

}  // namespace mica

#include "mica/op/cuda_trial.h"

#include <cudnn.h>

#include <limits>

#include "mica/core/check.h"
#include "mica/op/settings.h"
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
/// Raised when kernels of ours change so much that earlier times mean nothing.
constexpr int kOwnKernels = 1;

size_t bytes_of(const TensorSpec& spec) {
  if (spec.numel() == 0) return 0;
  int64_t last = 0;
  for (int d = 0; d < spec.rank(); ++d) last += (spec.shape[d] - 1) * spec.strides[d];
  return static_cast<size_t>(last + 1) * size_of(spec.dtype);
}

}  // namespace

CudaTrial::CudaTrial(const char* op, const Specs& specs)
    : op_(op),
      device_(specs.out[0].device),
      in_(specs.in.begin(), specs.in.end()),
      out_(specs.out.begin(), specs.out.end()) {
  const cudaStream_t stream = runtime(DeviceKind::cuda).encoder(device_.index)->stream();
  for (const auto* list : {&in_, &out_})
    for (const TensorSpec& spec : *list) {
      memory_.push_back(spec.defined ? make_ref<Storage>(bytes_of(spec), device_) : Ref<Storage>());
      if (spec.defined && spec.numel() > 0)
        check_cuda(cudaMemsetAsync(memory_.back()->data(), kFill, bytes_of(spec), stream));
    }
}

double CudaTrial::microseconds(size_t workspace_bytes, const std::function<void(const Call&)>& run,
                               double best) const {
  try {
    const auto workspace = make_ref<Storage>(workspace_bytes, device_);
    std::vector<Arg> args(memory_.size());
    for (size_t i = 0; i < args.size(); ++i)
      args[i] = {memory_[i] ? memory_[i]->data() : nullptr,
                 i < in_.size() ? &in_[i] : &out_[i - in_.size()]};
    const std::span<const Arg> all(args);
    const Call call{all.first(in_.size()), all.subspan(in_.size()), workspace->data(),
                    runtime(DeviceKind::cuda).encoder(device_.index)};
    return device_microseconds(device_.index, [&] { run(call); }, 4 * best + kHostPart);
  } catch (const Error& e) {
    if (verbose_dispatch()) fmt::print(stderr, "mica: {}: {}\n", op_, e.what());
    return kNever;
  }
}

double CudaTrial::microseconds(const Kernel& kernel, const void* params, double best) const {
  const Specs specs{in_, out_};
  if (kernel.supports(params, specs).kind == Support::Kind::no) return kNever;
  const auto state = kernel.prepare(params, specs);
  const double time = microseconds(
      state->workspace_bytes, [&](const Call& call) { kernel.run(params, *state, call); }, best);
  tell(kernel.name, time);
  return time;
}

void CudaTrial::tell(const std::string& name, double microseconds) const {
  if (verbose_dispatch())
    fmt::print(stderr, "mica: {}: {} takes {:.1f} µs\n", op_, name, microseconds);
}

std::string cuda_tuning_key(int device) {
  return fmt::format("{} CUDA {} cuBLASLt {} cuDNN {} own {}",
                     runtime(DeviceKind::cuda).properties(device).name, CUDART_VERSION,
                     cublasLtGetVersion(), cudnnGetVersion(), kOwnKernels);
}

}  // namespace mica

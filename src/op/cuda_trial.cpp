#include "mica/op/cuda_trial.h"

#include <cudnn.h>

#include <algorithm>
#include <limits>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/op/tuning.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/timing.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

/// What the host may add to a warm-up's time, in microseconds.
constexpr double kHostPart = 200;
constexpr double kNever = std::numeric_limits<double>::infinity();
/// Raised when kernels of ours change so much that earlier times mean nothing.
constexpr int kOwnKernels = 2;

size_t bytes_of(const TensorSpec& spec) {
  if (spec.numel() == 0) return 0;
  int64_t last = 0;
  for (int d = 0; d < spec.rank(); ++d) last += (spec.shape[d] - 1) * spec.strides[d];
  return static_cast<size_t>(last + 1) * size_of(spec.dtype);
}

/// Numbers between a half and two in size, in any dtype: each 16 bits could be a bf16 or an f16.
const std::vector<uint16_t>& pattern() {
  static const std::vector<uint16_t> words = [] {
    std::vector<uint16_t> made(1 << 15);
    uint32_t x = 1;
    for (uint16_t& w : made) {
      x = x * 1664525U + 1013904223U;
      w = static_cast<uint16_t>((x >> 16 & 0x80ffU) | 0x3f00U);
    }
    return made;
  }();
  return words;
}

void fill(const Storage& memory, size_t bytes, int device) {
  DeviceRuntime& cuda = runtime(DeviceKind::cuda);
  auto* data = static_cast<std::byte*>(memory.data());
  size_t done = std::min(bytes, pattern().size() * sizeof(uint16_t));
  cuda.copy_from_host(data, pattern().data(), done, device);
  for (; done < bytes; done += std::min(done, bytes - done))
    cuda.copy(data + done, data, std::min(done, bytes - done), device);
}

}  // namespace

CudaTrial::CudaTrial(const char* op, const Specs& specs)
    : op_(op),
      device_(specs.out[0].device),
      in_(specs.in.begin(), specs.in.end()),
      out_(specs.out.begin(), specs.out.end()) {
  for (const auto* list : {&in_, &out_})
    for (const TensorSpec& spec : *list) {
      memory_.push_back(spec.defined ? make_ref<Storage>(bytes_of(spec), device_) : Ref<Storage>());
      if (spec.defined && spec.numel() > 0) fill(*memory_.back(), bytes_of(spec), device_.index);
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
    const auto launches = [&] {
      run({all.first(in_.size()), all.subspan(in_.size()), workspace->data(),
           runtime(DeviceKind::cuda).encoder(device_.index)});
    };
    return device_microseconds(device_.index, launches, 4 * best + kHostPart);
  } catch (const Error& e) {
    if (verbose_dispatch()) fmt::print(stderr, "mica: {}: {}\n", op_, e.what());
    return kNever;
  }
}

double CudaTrial::microseconds(const OpDef& op, const Kernel& kernel, const void* params,
                               double best) const {
  const Specs specs{in_, out_};
  if (kernel.supports(op, params, specs).kind == Support::Kind::no) return kNever;
  const auto state = kernel.prepare(op, params, specs);
  const double time = microseconds(
      state->workspace_bytes, [&](const Call& call) { kernel.run(op, params, *state, call); },
      best);
  tell(kernel.name, time);
  return time;
}

void CudaTrial::tell(const std::string& name, double microseconds) const {
  if (verbose_dispatch())
    fmt::print(stderr, "mica: {}: {} takes {:.1f} µs\n", op_, name, microseconds);
}

std::string way_name(std::initializer_list<int> numbers) {
  std::string name;
  for (const int n : numbers) name.append(fmt::format("{} ", n));
  return name;
}

size_t ways_to_time() {
  constexpr size_t kMostTimed = 12;
  return autotune() && !deterministic() ? kMostTimed : 1;
}

size_t fastest_way(const char* op, const std::string& key, const Specs& specs,
                   const std::vector<KernelWay>& ways) {
  if (ways_to_time() == 1 || ways.size() < 2) return 0;
  const std::string whole =
      fmt::format("{} {} {}", op, key, cuda_tuning_key(specs.out[0].device.index));
  if (const auto answer = find_tuned(whole))
    for (size_t i = 0; i < ways.size(); ++i)
      if (ways[i].name == *answer) return i;
  size_t best = 0;
  try {
    const CudaTrial trial(op, specs);
    double least = kNever;
    for (size_t i = 0; i < ways.size(); ++i) {
      const double time = trial.microseconds(ways[i].workspace_bytes, ways[i].run, least);
      trial.tell(ways[i].name, time);
      if (time >= least) continue;
      least = time;
      best = i;
    }
    keep_tuned(whole, ways[best].name);
  } catch (const OutOfMemory&) {
    return 0;  // there is no memory to time in
  }
  return best;
}

std::string cuda_tuning_key(int device) {
  return fmt::format("{} CUDA {} cuBLASLt {} cuDNN {} own {}",
                     runtime(DeviceKind::cuda).properties(device).name, CUDART_VERSION,
                     cublasLtGetVersion(), cudnnGetVersion(), kOwnKernels);
}

}  // namespace mica

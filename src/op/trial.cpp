#include "mica/op/trial.h"

#include <algorithm>
#include <limits>

#include "mica/core/check.h"
#include "mica/core/log.h"
#include "mica/op/settings.h"
#include "mica/runtime/runtime.h"
#include "mica/runtime/timing.h"

namespace mica {
namespace {

/// What the host may add to a warm-up's time, in microseconds.
constexpr double kHostPart = 200;

size_t extent_of(const TensorSpec& spec) {
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

void fill(const Storage& memory, Device device) {
  DeviceRuntime& rt = runtime(device);
  auto* data = static_cast<std::byte*>(memory.data());
  const size_t bytes = memory.bytes();
  size_t done = std::min(bytes, pattern().size() * sizeof(uint16_t));
  rt.copy_from_host(data, pattern().data(), done, device.index);
  for (; done < bytes; done += std::min(done, bytes - done))
    rt.copy(data + done, data, std::min(done, bytes - done), device.index);
}

}  // namespace

Trial::Trial(const OpDef& op, ParamsRef params, const Specs& specs, Device device)
    : op_(op), params_(params), device_(device), inputs_(specs.in.size()) {
  specs_.assign(specs.in.begin(), specs.in.end());
  specs_.insert(specs_.end(), specs.out.begin(), specs.out.end());
  for (const TensorSpec& spec : specs_) {
    Arg& arg = args_.emplace_back(Arg{nullptr, &spec});
    Ref<Storage>& memory = memory_.emplace_back();
    if (!spec.defined || spec.numel() == 0) continue;
    const size_t offset = spec.aligned ? 0 : size_of(spec.dtype);
    memory = make_ref<Storage>(extent_of(spec) + offset, device);
    fill(*memory, device);
    arg.data = static_cast<std::byte*>(memory->data()) + offset;
  }
}

double Trial::microseconds(const Kernel& kernel, const KernelState& state, double best) const {
  try {
    const auto workspace = make_ref<Storage>(state.workspace_bytes, device_);
    const std::span<const Arg> all(args_);
    const auto launches = [&] {
      kernel.run(op_, params_.data, state,
                 {all.first(inputs_), all.subspan(inputs_), workspace->data(),
                  runtime(device_).encoder(device_.index)});
    };
    return device_microseconds(device_, launches, 4 * best + kHostPart);
  } catch (const Error& e) {
    if (verbose_dispatch()) log_message(LogLevel::info, fmt::format("{}: {}", op_.name, e.what()));
    return std::numeric_limits<double>::infinity();
  }
}

}  // namespace mica

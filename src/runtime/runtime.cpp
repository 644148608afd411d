#include "mica/runtime/runtime.h"

#include "mica/core/check.h"
#include "mica/runtime/cpu/cpu_runtime.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/null/null_runtime.h"

namespace mica {

DeviceRuntime& runtime(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return cpu_runtime();
    case DeviceKind::cuda:
      return *cuda_library().runtime;
    case DeviceKind::null:
      break;
  }
  return null_runtime();
}

void synchronize(Device device) { runtime(device).synchronize(device.index); }

MemoryStats memory_stats(Device device) { return runtime(device).memory_stats(device.index); }
void reset_peak(Device device) { runtime(device).reset_peak(device.index); }
void empty_cache(Device device) { runtime(device).empty_cache(device.index); }
void set_memory_limit(Device device, size_t bytes) {
  runtime(device).set_memory_limit(device.index, bytes);
}

}  // namespace mica

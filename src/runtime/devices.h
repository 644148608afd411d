#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mica/core/device.h"

// What a program asks of its devices.
namespace mica {

struct MemoryStats {
  size_t allocated = 0;      ///< bytes in use by tensors
  size_t reserved = 0;       ///< bytes taken from the device, cached blocks included
  size_t peak = 0;           ///< highest `allocated` since the last reset
  size_t peak_reserved = 0;  ///< highest `reserved` since the last reset
  size_t cached = 0;         ///< bytes of free blocks that are kept
  size_t largest_free = 0;   ///< the largest of these blocks
  uint64_t allocations = 0;  ///< blocks handed out so far
  size_t limit = 0;          ///< most bytes this process may reserve; 0: what the device has

  /// The part of the cached bytes that a request as large as all of them could not use.
  double fragmentation() const {
    return cached == 0 ? 0 : 1 - static_cast<double>(largest_free) / static_cast<double>(cached);
  }
};

struct DeviceProperties {
  std::string name;
  size_t memory = 0;       ///< bytes
  size_t free_memory = 0;  ///< bytes that no process uses; on CUDA only
  int multiprocessors = 0;
  int compute_capability = 0;  ///< 90 for 9.0; 0 on the CPU
  int driver_version = 0;   ///< the newest CUDA the driver supports, 13000 for 13.0; 0 on the CPU
  int runtime_version = 0;  ///< the CUDA that mica was built with
};

/// Why CUDA cannot be used, in one sentence; empty when it can.
std::string cuda_unavailable_reason();
bool cuda_available();

/// Waits until everything sent to the device is done.
void synchronize(Device device);
MemoryStats memory_stats(Device device);
/// Starts both peaks again from what is in use now.
void reset_peak(Device device);
/// Gives cached blocks back to the system.
void empty_cache(Device device);
/// The most bytes this process may take from a device; 0 lifts the limit. On CUDA at first
/// MICA_CUDA_MEMORY_LIMIT. What is reserved already stays.
void set_memory_limit(Device device, size_t bytes);

}  // namespace mica

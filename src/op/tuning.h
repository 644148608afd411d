#pragma once

#include <optional>
#include <string>

#include "mica/core/device.h"

namespace mica {

// What timing found, kept between runs in one file of text: `autotune.txt` in the cache's directory
// (runtime/disk_cache.h). Where there is none it stays in memory. A file that cannot be read or
// written, or a line that is damaged, is as if it were not there; any number of processes may
// write at once.

/// The answer kept for `key`, which names everything it depends on.
std::optional<std::string> find_tuned(const std::string& key);
/// Keeps an answer; neither text may hold a tab or the end of a line.
void keep_tuned(const std::string& key, const std::string& answer);

/// What a time depends on beside the call: the device, its libraries and our own kernels. Empty on
/// devices where kernels are not timed.
std::string tuning_environment(Device device);
/// Who tells it for a kind of devices; said when their kernels are attached.
void set_tuning_environment(DeviceKind kind, std::string (*describe)(int index));
/// That of CUDA, in libmica_cuda.
std::string cuda_tuning_environment(int index);

}  // namespace mica

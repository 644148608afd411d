#pragma once

#include <cstdint>

#include "mica/op/run_watcher.h"
#include "mica/profile/profile.h"

namespace mica::profiler {

/// Equal for calls that are alike.
uint64_t hash_of(const KernelRun& run);
Kind kind_of(const KernelRun& run);

}  // namespace mica::profiler

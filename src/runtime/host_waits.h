#pragma once

#include <cstdint>

#include "mica/core/device.h"

namespace mica {

/// How often the program has waited for a kind of device, or has read a tensor's values there,
/// which on the CPU waits for nothing: what a loop is made to do rarely.
int64_t host_waits(DeviceKind kind);
void count_host_wait(DeviceKind kind);

}  // namespace mica

#pragma once

#include <functional>

#include "mica/core/device.h"

namespace mica {

/// Microseconds on the device per call of `launches`, which sends work to its current stream and
/// may be called often: twice to warm up, then recorded and replayed, so that the host's part
/// does not count. Where the warm-up took longer than `limit` it is the answer. Not while a graph
/// is recorded.
double device_microseconds(Device device, const std::function<void()>& launches, double limit);

}  // namespace mica

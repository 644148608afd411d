#include "mica/runtime/host_waits.h"

#include <array>
#include <atomic>

namespace mica {
namespace {

std::array<std::atomic<int64_t>, kDeviceKinds> g_waits{};

}  // namespace

int64_t host_waits(DeviceKind kind) { return g_waits[static_cast<size_t>(kind)]; }
void count_host_wait(DeviceKind kind) { ++g_waits[static_cast<size_t>(kind)]; }

}  // namespace mica

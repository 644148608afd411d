#include "mica/core/device.h"

#include <charconv>

#include "mica/core/check.h"

namespace mica {

std::string to_string(Device device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return fmt::format("cuda:{}", device.index);
    case DeviceKind::null:
      return "null";
  }
  return "?";
}

Device device_from_name(std::string_view name) {
  if (name == "cpu") return Device::cpu();
  if (name == "null") return Device::null();
  if (name == "cuda") return Device::cuda();
  if (name.starts_with("cuda:")) {
    int index = 0;
    const char* end = name.data() + name.size();
    const auto [p, ec] = std::from_chars(name.data() + 5, end, index);
    if (ec == std::errc() && p == end && index >= 0) return Device::cuda(index);
  }
  fail<DeviceError>("no device is named '{}'; expected cpu, cuda, cuda:<index> or null", name);
}

}  // namespace mica

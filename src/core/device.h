#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mica {

/// `null` has no memory: it carries shapes through capture and planning without hardware.
enum class DeviceKind : uint8_t { cpu, cuda, null };

inline constexpr int kDeviceKinds = 3;

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {DeviceKind::cuda, index}; }
  static constexpr Device null() { return {DeviceKind::null, 0}; }

  bool is_cpu() const { return kind == DeviceKind::cpu; }
  bool is_cuda() const { return kind == DeviceKind::cuda; }
  bool is_null() const { return kind == DeviceKind::null; }
  bool operator==(const Device&) const = default;
};

/// "cpu", "cuda:0", "null".
std::string to_string(Device device);

/// Reads "cpu", "cuda", "cuda:1" or "null"; raises DeviceError otherwise.
Device device_from_name(std::string_view name);

}  // namespace mica

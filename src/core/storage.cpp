#include "mica/core/storage.h"

#include "mica/runtime/runtime.h"

namespace mica {

Storage::Storage(size_t bytes, Device device)
    : data_(static_cast<std::byte*>(runtime(device).allocate(bytes, device.index))),
      bytes_(bytes),
      device_(device) {}

Storage::Storage(void* data, size_t bytes, Device device, std::shared_ptr<void> owner)
    : data_(static_cast<std::byte*>(data)),
      bytes_(bytes),
      device_(device),
      owner_(std::move(owner)) {}

Storage::~Storage() {
  if (!owner_) runtime(device_).deallocate(data_, bytes_, device_.index);
}

}  // namespace mica

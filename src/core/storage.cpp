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

Ref<Storage> Storage::pinned(size_t bytes) {
  DeviceRuntime& cuda = runtime(DeviceKind::cuda);
  std::shared_ptr<void> memory(cuda.allocate_pinned(bytes),
                               [&cuda](void* data) { cuda.deallocate_pinned(data); });
  auto storage = make_ref<Storage>(memory.get(), bytes, Device::cpu(), memory);
  storage->pinned_ = true;
  return storage;
}

Storage::~Storage() {
  if (!owner_) runtime(device_).deallocate(data_, bytes_, device_.index);
}

}  // namespace mica

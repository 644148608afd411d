#include "mica/core/storage.h"

#include "mica/core/allocation_fault.h"
#include "mica/core/check.h"
#include "mica/core/storage_watcher.h"
#include "mica/runtime/runtime.h"

namespace mica {

std::atomic<StorageWatcher*> g_storage_watcher{nullptr};

namespace {

std::atomic<int64_t> g_failing{0};  // which allocation is to fail; 0: they are not counted
std::atomic<int64_t> g_allocations{0};

std::byte* allocate(size_t bytes, Device device) {
  if (const int64_t n = g_failing.load(std::memory_order_relaxed); n != 0) [[unlikely]]
    check<OutOfMemory>(
        g_allocations.fetch_add(1) + 1 != n,
        "out of memory on {}: {} bytes requested, and a test lets allocation {} fail", device,
        bytes, n);
  return static_cast<std::byte*>(runtime(device).allocate(bytes, device.index));
}

void tell_taken(const std::byte* data, size_t bytes, Device device, bool is_adopted) {
  if (StorageWatcher* watcher = g_storage_watcher.load(std::memory_order_acquire)) [[unlikely]]
    watcher->took(data, bytes, device, is_adopted);
}

}  // namespace

int64_t fail_allocation(int64_t n) {
  g_failing = n;
  return n == 0 ? g_allocations.load() : g_allocations.exchange(0);
}

Storage::Storage(size_t bytes, Device device)
    : data_(allocate(bytes, device)), bytes_(bytes), device_(device) {
  tell_taken(data_, bytes_, device_, false);
}

Storage::Storage(void* data, size_t bytes, Device device, std::shared_ptr<void> owner)
    : data_(static_cast<std::byte*>(data)),
      bytes_(bytes),
      device_(device),
      adopted_(true),
      owner_(std::move(owner)) {
  tell_taken(data_, bytes_, device_, true);
}

Ref<Storage> Storage::pinned(size_t bytes) {
  DeviceRuntime& cuda = runtime(DeviceKind::cuda);
  std::shared_ptr<void> memory(cuda.allocate_pinned(bytes),
                               [&cuda](void* data) { cuda.deallocate_pinned(data); });
  auto storage = make_ref<Storage>(memory.get(), bytes, Device::cpu(), memory);
  storage->pinned_ = true;
  return storage;
}

Storage::~Storage() {
  if (StorageWatcher* watcher = g_storage_watcher.load(std::memory_order_acquire)) [[unlikely]]
    watcher->gives_back(data_, bytes_, adopted_);
  if (!adopted_) runtime(device_).deallocate(data_, bytes_, device_.index);
}

}  // namespace mica

#pragma once

#include <atomic>
#include <cstddef>

#include "mica/core/device.h"

namespace mica {

/// Who wants to know of memory that tensors take and give back, such as a profiler. Called in the
/// thread that does it; must raise nothing, and stay.
class StorageWatcher {
 public:
  virtual ~StorageWatcher() = default;
  /// Adopted memory may be a part of what was taken.
  virtual void took(const std::byte* data, size_t bytes, Device device, bool is_adopted) = 0;
  virtual void gives_back(const std::byte* data, size_t bytes, bool is_adopted) = 0;
};

extern std::atomic<StorageWatcher*> g_storage_watcher;

/// Null: nobody.
inline void set_storage_watcher(StorageWatcher* watcher) {
  g_storage_watcher.store(watcher, std::memory_order_release);
}

}  // namespace mica

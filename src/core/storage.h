#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "mica/core/device.h"
#include "mica/core/ref.h"

namespace mica {

/// A block of memory on one device, shared by all views of it.
class Storage : public RefCounted {
 public:
  /// Allocates from the device's caching allocator. Raises OutOfMemory.
  Storage(size_t bytes, Device device);
  /// Adopts foreign memory, kept alive by `owner`; by nobody, for whom the caller answers, if that
  /// is null.
  Storage(void* data, size_t bytes, Device device, std::shared_ptr<void> owner);
  /// Host memory from the cache of pinned blocks. Raises DeviceError where there is no CUDA.
  static Ref<Storage> pinned(size_t bytes);
  ~Storage() override;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool is_pinned() const { return pinned_; }

  /// Counts the writes, so that backward can tell a saved tensor that was modified.
  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  /// Counts the writes after which tensors that lie here have another history.
  uint32_t histories() const { return histories_.load(std::memory_order_relaxed); }
  void note_history() { histories_.fetch_add(1, std::memory_order_relaxed); }

  /// Counts how often a module's member that lies here gave way to another tensor, or the module
  /// got other members: a compiled function that read it is captured again.
  uint32_t replacements() const { return replacements_.load(std::memory_order_relaxed); }
  void note_replacement() { replacements_.fetch_add(1, std::memory_order_relaxed); }

  /// Somebody outside holds a pointer to the memory (a NumPy or DLPack view, data_as) and may write
  /// at any time without a version telling.
  void hand_out() { handed_out_.store(true, std::memory_order_relaxed); }
  bool is_handed_out() const { return handed_out_.load(std::memory_order_relaxed); }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  Device device_;
  bool pinned_ = false;
  bool adopted_ = false;
  std::atomic<bool> handed_out_{false};
  std::atomic<uint32_t> version_{0};
  std::atomic<uint32_t> histories_{0};
  std::atomic<uint32_t> replacements_{0};
  std::shared_ptr<void> owner_;
};

}  // namespace mica

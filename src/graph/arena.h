#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "mica/core/storage.h"
#include "mica/runtime/stream.h"

namespace mica {

/// Memory that plans of a device share: nothing in it outlives a run.
struct Arena {
  Ref<Storage> storage;
  Stream last_stream;  ///< the one the last run went to; at first the one it was allocated on

  /// The next run goes to this stream: after the last one, wherever that went.
  void use_on(const Stream& stream);
};

/// Memory of its own.
std::shared_ptr<Arena> new_arena(Device device, size_t bytes);

/// Memory that a run uses.
struct MemoryRange {
  const std::byte* begin;
  const std::byte* end;
  bool written;

  bool meets(const MemoryRange& other) const { return begin < other.end && other.begin < end; }
};

/// The right to run a plan on a device while it lives: no two runs at once have the same slot, nor
/// therefore the same arena.
class ArenaSlot {
 public:
  static constexpr int kMost = 64;

  /// Waits for a free one, and until none that writes to what this run uses is taken, nor one that
  /// uses what it writes to; those that were there before go first. `uses` lives as long as this.
  /// On CUDA, where a stream is an order anyway, all share the first slot.
  explicit ArenaSlot(Device device, std::span<const MemoryRange> uses = {});
  ~ArenaSlot();
  ArenaSlot(const ArenaSlot&) = delete;
  ArenaSlot& operator=(const ArenaSlot&) = delete;

  int index() const { return index_; }

  /// The arena of one of a device's slots if it is large enough, else a new one; plans made before
  /// keep theirs.
  static std::shared_ptr<Arena> arena(Device device, int slot, size_t bytes);

 private:
  struct Slots;
  static Slots& slots_of(Device device);

  Slots& slots_;
  bool writes_;
  int index_;
};

}  // namespace mica

#include "mica/graph/arena.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

std::atomic<int> g_concurrent_runs{0};  // 0: as many as there are cores

}  // namespace

void set_max_concurrent_runs(int runs) {
  check(runs >= 1 && runs <= ArenaSlot::kMost, "set_max_concurrent_runs: expected 1 to {}, got {}",
        ArenaSlot::kMost, runs);
  g_concurrent_runs = runs;
}

int max_concurrent_runs() {
  static const int cores =
      std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, ArenaSlot::kMost);
  const int set = g_concurrent_runs.load(std::memory_order_relaxed);
  return set > 0 ? set : cores;
}

void Arena::use_on(const Stream& stream) {
  if (stream == last_stream) return;
  Event done;
  done.record(last_stream);
  stream.wait(done);
  const Device device = stream.device();
  runtime(device).record_stream(storage->data(), device.index, stream.state());
  last_stream = stream;
}

std::shared_ptr<Arena> new_arena(Device device, size_t bytes) {
  auto arena = std::make_shared<Arena>();
  arena->storage = make_ref<Storage>(bytes, device);
  arena->last_stream = current_stream(device);
  return arena;
}

/// Of one device; it outlives everything that runs while the program ends.
struct ArenaSlot::Slots {
  std::mutex mutex;
  std::condition_variable slot_free;
  std::condition_variable writer_done;  ///< those that write wait for each other as well
  int waiting_writers = 0;
  std::array<bool, kMost> busy{};
  std::array<std::span<const MemoryRange>, kMost> uses{};
  std::array<std::weak_ptr<Arena>, kMost> arenas;

  bool is_in_the_way(std::span<const MemoryRange> wanted) const {
    return std::ranges::any_of(uses, [&](std::span<const MemoryRange> others) {
      return std::ranges::any_of(others, [&](const MemoryRange& other) {
        return std::ranges::any_of(wanted, [&](const MemoryRange& range) {
          return (range.written || other.written) && range.meets(other);
        });
      });
    });
  }

  int take(int most, std::span<const MemoryRange> wanted) {
    std::unique_lock lock(mutex);
    for (;;) {
      const auto end = busy.begin() + most;
      const auto free = std::find(busy.begin(), end, false);
      if (free != end && (wanted.empty() || !is_in_the_way(wanted))) {
        *free = true;
        const auto slot = free - busy.begin();
        uses[static_cast<size_t>(slot)] = wanted;
        return static_cast<int>(slot);
      }
      if (wanted.empty()) {
        slot_free.wait(lock);
      } else {
        ++waiting_writers;
        writer_done.wait(lock);
        --waiting_writers;
      }
    }
  }

  void give_back(int slot) {
    bool writers = false;
    {
      const std::lock_guard lock(mutex);
      busy[static_cast<size_t>(slot)] = false;
      uses[static_cast<size_t>(slot)] = {};
      writers = waiting_writers > 0;
    }
    if (writers) writer_done.notify_all();
    slot_free.notify_one();
  }
};

ArenaSlot::Slots& ArenaSlot::slots_of(Device device) {
  // A child process has slots of its own: threads that it has not may hold its parent's.
  thread_local struct {
    Device device;
    int forks = -1;
    Slots* slots = nullptr;
  } last;
  if (last.device == device && last.forks == forks()) [[likely]]
    return *last.slots;
  static auto& mutex = *new Mutex;
  static auto* const all = new std::map<std::tuple<DeviceKind, int, int>, Slots>;
  const std::lock_guard lock(mutex);
  last = {device, forks(), &(*all)[{device.kind, device.index, forks()}]};
  return *last.slots;
}

ArenaSlot::ArenaSlot(Device device, std::span<const MemoryRange> uses)
    : slots_(slots_of(device)),
      index_(slots_.take(device.is_cpu() ? max_concurrent_runs() : 1, uses)) {}

ArenaSlot::~ArenaSlot() { slots_.give_back(index_); }

std::shared_ptr<Arena> ArenaSlot::arena(Device device, int slot, size_t bytes) {
  Slots& slots = slots_of(device);
  {
    const std::lock_guard lock(slots.mutex);
    auto arena = slots.arenas[static_cast<size_t>(slot)].lock();
    if (arena && arena->storage->bytes() >= bytes) return arena;
  }
  auto arena = new_arena(device, bytes);
  const std::lock_guard lock(slots.mutex);
  slots.arenas[static_cast<size_t>(slot)] = arena;
  return arena;
}

}  // namespace mica

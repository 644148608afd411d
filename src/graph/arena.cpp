#include "mica/graph/arena.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/graph/compile.h"
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
  using Uses = std::span<const MemoryRange>;

  std::mutex mutex;
  std::condition_variable slot_free;
  std::condition_variable memory_free;
  std::array<bool, kMost> busy{};
  std::array<Uses, kMost> uses{};
  int writers = 0;        ///< of the busy ones
  std::list<Uses> queue;  ///< those that wait for memory, in the order they came
  std::array<std::weak_ptr<Arena>, kMost> arenas;

  static bool collide(Uses some, Uses others) {
    return std::ranges::any_of(some, [&](const MemoryRange& a) {
      return std::ranges::any_of(
          others, [&](const MemoryRange& b) { return (a.written || b.written) && a.meets(b); });
    });
  }

  /// Whether a run has to wait for memory: those that run use it, or those before it want to.
  bool must_wait(Uses wanted, bool wants_to_write, std::list<Uses>::const_iterator before) const {
    if (!wants_to_write && writers == 0 && queue.empty()) return false;
    const auto collides = [&](Uses others) { return collide(wanted, others); };
    return std::ranges::any_of(uses, collides) || std::any_of(queue.begin(), before, collides);
  }

  int take(int most, Uses wanted, bool wants_to_write) {
    std::unique_lock lock(mutex);
    auto place = queue.cend();
    for (;;) {
      const auto end = busy.begin() + most;
      const auto free = std::find(busy.begin(), end, false);
      if (must_wait(wanted, wants_to_write, place)) {
        if (place == queue.cend()) place = queue.insert(queue.cend(), wanted);
        if (free != end) slot_free.notify_one();  // which another may have
        memory_free.wait(lock);
      } else if (free == end) {
        slot_free.wait(lock);
      } else {
        if (place != queue.cend()) queue.erase(place);
        *free = true;
        const auto slot = free - busy.begin();
        uses[static_cast<size_t>(slot)] = wanted;
        writers += wants_to_write ? 1 : 0;
        return static_cast<int>(slot);
      }
    }
  }

  void give_back(int slot, bool wrote) {
    bool waited_for = false;
    {
      const std::lock_guard lock(mutex);
      busy[static_cast<size_t>(slot)] = false;
      uses[static_cast<size_t>(slot)] = {};
      writers -= wrote ? 1 : 0;
      waited_for = !queue.empty();
    }
    if (waited_for) memory_free.notify_all();
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
      writes_(std::ranges::any_of(uses, &MemoryRange::written)),
      index_(slots_.take(device.is_cpu() ? max_concurrent_runs() : 1, uses, writes_)) {}

ArenaSlot::~ArenaSlot() { slots_.give_back(index_, writes_); }

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

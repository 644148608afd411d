#include "mica/core/handed_out.h"

#include <mutex>
#include <unordered_set>

namespace mica {
namespace {

// Beside the storages, not in them: few are ever handed out. Never destroyed, since storages may be
// freed at exit.
struct Marked {
  std::mutex mutex;
  std::unordered_set<const Storage*> storages;
  std::atomic<size_t> count{0};  ///< lets the others pass without the lock
};

Marked& marked() {
  static auto* const m = new Marked;
  return *m;
}

}  // namespace

void hand_out(const Storage& storage) {
  Marked& m = marked();
  const std::lock_guard lock(m.mutex);
  m.storages.insert(&storage);
  m.count = m.storages.size();
}

bool is_handed_out(const Storage& storage) {
  Marked& m = marked();
  if (m.count == 0) return false;
  const std::lock_guard lock(m.mutex);
  return m.storages.contains(&storage);
}

void forget_handed_out(const Storage& storage) {
  Marked& m = marked();
  if (m.count == 0) return;
  const std::lock_guard lock(m.mutex);
  m.storages.erase(&storage);
  m.count = m.storages.size();
}

}  // namespace mica

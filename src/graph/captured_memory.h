#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/spec.h"
#include "mica/core/storage.h"
#include "mica/graph/memory_plan.h"

namespace mica {

/// What eager execution would hold in memory: handles and the tape let go of traced tensors when
/// they would let go of real ones.
struct Held {
  size_t bytes = 0;
  size_t most = 0;
};

/// Memory that is only counted, from now until the last tensor that shares it is gone.
inline Ref<Storage> counted_storage(const std::shared_ptr<Held>& held, const TensorSpec& spec) {
  const size_t bytes =
      round_up(static_cast<size_t>(spec.numel()) * size_of(spec.dtype), alignment(spec.device));
  held->bytes += bytes;
  held->most = std::max(held->most, held->bytes);
  const std::shared_ptr<void> owner(held.get(), [held, bytes](void*) { held->bytes -= bytes; });
  return make_ref<Storage>(nullptr, bytes, spec.device, owner);
}

/// Which nodes of a graph that is captured wrote to which memory. Memory is a storage: that
/// of a tensor outside, or the one that a traced tensor shares with its views and that is only
/// counted.
class CapturedMemory {
 public:
  /// A storage is new: what lay at its address before is gone.
  void forget(const Storage* storage) { groups_.erase(storage); }

  /// The node that wrote last; -1 for none.
  int last_writer(const Storage* storage) const {
    const auto at = groups_.find(storage);
    return at == groups_.end() || at->second->writers.empty() ? -1 : at->second->writers.back();
  }
  /// Nodes that wrote, in their order.
  const std::vector<int>& writers(const Storage* storage) { return group(storage).writers; }
  void write_by(Storage* storage, int node) {
    Group& g = group(storage);
    g.writers.push_back(node);
    for (const Ref<Storage>& member : g.members)
      if (member.get() != storage) member->bump_version();
    storage->bump_version();
  }

  /// From now on both stand for the same memory.
  void join(const Ref<Storage>& a, const Ref<Storage>& b) {
    Group& to = group(a.get());
    const Group from = group(b.get());
    std::vector<int> writers;
    std::merge(to.writers.begin(), to.writers.end(), from.writers.begin(), from.writers.end(),
               std::back_inserter(writers));
    to.writers = std::move(writers);
    to.members.push_back(a);
    to.members.push_back(b);
    groups_[b.get()] = groups_[a.get()];
  }

  /// Notes memory outside. Two storages may lie in the same memory, of a NumPy array for one: no
  /// write to either is understood then.
  void meet(const Ref<Storage>& storage) {
    const auto [met, fresh] = met_.try_emplace(storage.get(), Met{storage, false});
    const std::byte* begin = storage->data();
    if (!fresh || !begin || storage->bytes() == 0) return;
    Range range{begin + storage->bytes(), {&met->second}};
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != ranges_.end() && at->first < range.end) {
      begin = std::min(begin, at->first);
      range.end = std::max(range.end, at->second.end);
      for (Met* other : at->second.storages) {
        range.storages.push_back(other);
        met->second.shared = other->shared = true;
      }
      at = ranges_.erase(at);
    }
    for (const Met* other : range.storages)
      if (last_writer(other->storage.get()) >= 0) check_alone("compile", other->storage.get());
    ranges_.emplace(begin, std::move(range));
  }
  void check_alone(const char* who, const Storage* storage) const {
    const auto met = met_.find(storage);
    check<Unsupported>(met == met_.end() || !met->second.shared,
                       "{}: a write to memory that another tensor outside was made from as well "
                       "cannot be captured",
                       who);
  }

 private:
  struct Group {
    std::vector<int> writers;
    std::vector<Ref<Storage>> members;  // where there are several
  };
  struct Met {
    Ref<Storage> storage;
    bool shared;
  };

  /// Bytes that one storage covers, or several that overlap.
  struct Range {
    const std::byte* end;
    std::vector<Met*> storages;
  };

  Group& group(const Storage* storage) {
    std::shared_ptr<Group>& g = groups_[storage];
    if (!g) g = std::make_shared<Group>();
    return *g;
  }

  std::unordered_map<const Storage*, std::shared_ptr<Group>> groups_;
  std::unordered_map<const Storage*, Met> met_;
  std::map<const std::byte*, Range> ranges_;  // by where they begin
};

}  // namespace mica

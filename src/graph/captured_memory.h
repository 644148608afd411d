#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/storage.h"

namespace mica {

/// Which nodes of a graph that is captured read and wrote which memory. Memory is a storage: that
/// of a tensor outside, or the one that a traced tensor shares with its views and that is only
/// counted.
class CapturedMemory {
 public:
  /// A storage is new: what lay at its address before is gone.
  void forget(const Storage* storage) { groups_.erase(storage); }

  /// The node that wrote last; -1 for none.
  int last_writer(const Storage* storage) const {
    const auto at = groups_.find(storage);
    return at == groups_.end() ? -1 : at->second->writer;
  }
  void read_by(const Storage* storage, int node) { group(storage).readers.push_back(node); }
  /// Nodes that read since the last write.
  const std::vector<int>& readers(const Storage* storage) { return group(storage).readers; }
  void write_by(Storage* storage, int node) {
    Group& g = group(storage);
    g.writer = node;
    g.readers.clear();
    for (const Ref<Storage>& member : g.members)
      if (member.get() != storage) member->bump_version();
    storage->bump_version();
  }

  /// From now on both stand for the same memory.
  void join(const Ref<Storage>& a, const Ref<Storage>& b) {
    Group& to = group(a.get());
    const Group from = group(b.get());
    to.writer = std::max(to.writer, from.writer);
    to.readers.insert(to.readers.end(), from.readers.begin(), from.readers.end());
    to.members.push_back(a);
    to.members.push_back(b);
    groups_[b.get()] = groups_[a.get()];
  }

  /// Notes memory outside. Two storages may lie in the same memory, of a NumPy array for one: no
  /// write to either is understood then.
  void meet(const Ref<Storage>& storage) {
    for (const Met& met : met_)
      if (met.storage == storage) return;
    Met fresh{storage, false};
    for (Met& met : met_) {
      if (!overlap(*met.storage, *storage)) continue;
      fresh.shared = met.shared = true;
      if (last_writer(met.storage.get()) >= 0) check_alone("compile", met.storage.get());
    }
    met_.push_back(fresh);
  }
  void check_alone(const char* who, const Storage* storage) const {
    for (const Met& met : met_)
      check<Unsupported>(met.storage.get() != storage || !met.shared,
                         "{}: a write to memory that another tensor outside was made from as well "
                         "cannot be captured",
                         who);
  }

 private:
  struct Group {
    std::vector<int> readers;
    int writer = -1;
    std::vector<Ref<Storage>> members;  // where there are several
  };
  struct Met {
    Ref<Storage> storage;
    bool shared;
  };

  static bool overlap(const Storage& a, const Storage& b) {
    return a.data() && b.data() && a.device() == b.device() && a.data() < b.data() + b.bytes() &&
           b.data() < a.data() + a.bytes();
  }
  Group& group(const Storage* storage) {
    std::shared_ptr<Group>& g = groups_[storage];
    if (!g) g = std::make_shared<Group>();
    return *g;
  }

  std::unordered_map<const Storage*, std::shared_ptr<Group>> groups_;
  std::vector<Met> met_;
};

}  // namespace mica

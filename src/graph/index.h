#pragma once

#include <functional>
#include <memory_resource>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mica/graph/graph.h"

namespace mica {

/// Who uses a value and who writes to its memory. To make one goes through the whole graph: a pass
/// looks first whether there is anything for it. It counts nodes: right until some are added or
/// removed. What `put`, `replace` and `join` change it follows; who changes a node's operands
/// otherwise lets it forget the node before, and note it after.
class Index {
 public:
  explicit Index(const Graph& graph);

  /// The nodes that read a value, in order, once for every operand.
  std::span<const int> readers(ValueId id) const;
  bool is_result(ValueId id) const;
  /// How often nodes and results use a value.
  int uses(ValueId id) const;
  /// Values that lie in the memory of this one: views of it and later versions.
  std::span<const ValueId> views(ValueId id) const;
  /// The last node that reads the memory of a computed value; the number of nodes for a result.
  int last_use(ValueId root) const;

  /// Whether a node from `first` to `last`, both included, writes to the memory of a value.
  bool between(ValueId id, int first, int last) const;
  bool ever(ValueId id) const;
  /// The first node past `node` that writes to it, or -1.
  int next(ValueId id, int node) const;
  /// Whether a value still holds at node `last` what it held when it was made.
  bool lasts_until(ValueId id, int last) const;

  void forget(int number);
  void note(int number);
  /// Who used `from` uses `to`.
  void rename(ValueId from, ValueId to);
  // Likewise for a value that came to lie in the memory of another, or no longer does.
  void forget_view(ValueId id);
  void note_view(ValueId id);

 private:
  /// Values that exist outside share a storage, others a root.
  using Memory = std::pair<const Storage*, ValueId>;
  Memory memory(ValueId id) const;
  template <class F>
  void each_operand(int number, F&& f) const;
  void grow();

  const Graph& graph_;
  /// A pass makes an index and drops it: thousands of short lists, of which none is freed alone.
  std::pmr::monotonic_buffer_resource room_;
  using List = std::pmr::vector<int>;
  struct Hash {
    size_t operator()(const Memory& m) const {
      return std::hash<const void*>()(m.first) ^ std::hash<ValueId>()(m.second);
    }
  };
  std::pmr::unordered_map<Memory, List, Hash> writers_{&room_};
  std::pmr::vector<List> readers_{&room_};  ///< by value
  std::pmr::vector<List> views_{&room_};    ///< by value
  std::vector<int> results_;                ///< by value: how often it is a result
};

}  // namespace mica

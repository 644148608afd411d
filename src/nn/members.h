#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mica/core/fork.h"
#include "mica/core/sanitizers.h"

namespace mica::nn {

/// The parts of one kind that a module has, by name, in the order they were registered. Who reads
/// takes a snapshot: it stays as it was when parts come or go meanwhile, in this thread or another.
template <class T>
class Members {
 public:
  using List = std::vector<std::pair<std::string, T>>;

  class Snapshot {
   public:
    auto begin() const { return list_->begin(); }
    auto end() const { return list_->end(); }
    size_t size() const { return list_->size(); }
    bool empty() const { return list_->empty(); }
    const std::pair<std::string, T>& operator[](size_t i) const& { return (*list_)[i]; }
    std::pair<std::string, T> operator[](size_t i) const&& { return (*list_)[i]; }
    operator const List&() const { return *list_; }  ///< as long as the snapshot
    /// Null where there is none of that name; valid as long as the snapshot.
    const T* find(std::string_view name) const {
      for (const auto& [own_name, part] : *list_)
        if (own_name == name) return &part;
      return nullptr;
    }

   private:
    friend class Members;
    explicit Snapshot(std::shared_ptr<const List> list) : list_(std::move(list)) {}
    std::shared_ptr<const List> list_;
  };

  Snapshot get() const {
    static const auto none = std::make_shared<const List>();
    const Holding lock(mutex_);
    return Snapshot(list_ ? list_ : none);
  }

  /// Calls f with the list, which it may change; snapshots do not see it. f must let nothing go
  /// that it takes out: whatever that runs may ask for the members.
  template <class F>
  auto edit(F&& f) {
    const Holding lock(mutex_);
    if (!list_) {
      list_ = std::make_shared<List>();
    } else if (kCopies || list_.use_count() > 1) {
      list_ = std::make_shared<List>(*list_);
    } else if constexpr (!kCopies) {
      // Whoever let a snapshot go in another thread is done reading it.
      std::atomic_thread_fence(std::memory_order_acquire);
    }
    return f(*list_);
  }

  /// Leaves none; those that a snapshot shows stay with it.
  List take_all() {
    const Holding lock(mutex_);
    const std::shared_ptr<List> all = std::move(list_);
    return all.use_count() == 1 ? std::move(*all) : List();
  }

 private:
  static constexpr bool kCopies = kThreadSanitizer;  ///< which knows no fences
  mutable Mutex mutex_;
  std::shared_ptr<List> list_;  ///< null while there are none
};

}  // namespace mica::nn

#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "mica/core/fork.h"
#include "mica/nn/module.h"

namespace mica::nn {

/// The hooks of one module by number, in the order they run in: one that is put first has a number
/// below all others. Who calls them takes a copy of a list, since a hook may take itself away, and
/// another thread any of them.
struct ForwardHooks {
  std::map<int64_t, ForwardPreHook> before;
  std::map<int64_t, ForwardHook> after;
  std::set<int64_t> always;  ///< of those after a call: called where it raises too
  int64_t first = 0;
  int64_t next = 0;
  mutable Mutex mutex;  ///< nothing is called or let go while it is held

  template <class Hook>
  std::map<int64_t, Hook> copy_of(std::map<int64_t, Hook> ForwardHooks::* list) const {
    const Holding lock(mutex);
    return this->*list;
  }
  bool is_always_called(int64_t hook) const {
    const Holding lock(mutex);
    return always.contains(hook);
  }
};

/// Calls f with the hooks from this one on that are called although the call raised. What they
/// raise is dropped: the first error counts.
template <class F>
void after_error(const ForwardHooks& hooks, std::map<int64_t, ForwardHook>::const_iterator from,
                 std::map<int64_t, ForwardHook>::const_iterator end, F&& f) {
  for (; from != end; ++from) {
    if (!hooks.is_always_called(from->first)) continue;
    try {
      f(from->second);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }
}

}  // namespace mica::nn

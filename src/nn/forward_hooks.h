#pragma once

#include <cstdint>
#include <map>

#include "mica/core/fork.h"
#include "mica/nn/module.h"

namespace mica::nn {

/// The hooks of one module by number, in the order they were added. Who calls them takes a copy of
/// a list, since a hook may take itself away, and another thread any of them.
struct ForwardHooks {
  std::map<uint64_t, ForwardPreHook> before;
  std::map<uint64_t, ForwardHook> after;
  uint64_t next = 0;
  mutable Mutex mutex;  ///< nothing is called or let go while it is held

  template <class Hook>
  std::map<uint64_t, Hook> copy_of(std::map<uint64_t, Hook> ForwardHooks::* list) const {
    const Holding lock(mutex);
    return this->*list;
  }
};

}  // namespace mica::nn

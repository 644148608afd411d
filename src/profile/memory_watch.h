#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mica/core/fork.h"
#include "mica/core/storage_watcher.h"
#include "mica/op/run_watcher.h"
#include "mica/profile/memory.h"

namespace mica::profiler {

/// By op, module and pass; most first.
using Held = std::map<std::tuple<std::string, std::string, Phase>, size_t>;
std::vector<Holder> holders_of(const Held& held);

/// What tensors hold in eager execution, on any device, and for what: told by which op made a block
/// and which passes use it.
class MemoryWatch final : public StorageWatcher {
 public:
  /// Forgets everything.
  void clear();
  void took(const std::byte* data, size_t bytes, Device device, bool is_adopted) override;
  void gives_back(const std::byte* data, size_t bytes, bool is_adopted) override;
  /// An eager run ended, for this module and pass.
  void ran(const KernelRun& run, const Scope& scope);
  /// Looks at what is held now on a device that says it holds so much, where that is the most so
  /// far.
  void look(Device device, size_t allocated);
  /// Of the first GPU, else of the CPU.
  PeakMemory peak() const;

 private:
  using Maker = std::pair<std::string, Phase>;  ///< a module's path, and the pass
  struct Block {
    Device device;
    size_t bytes = 0;
    const char* op = nullptr;      ///< for which it was taken; null: outside of ops
    const Maker* maker = nullptr;  ///< whose call made it, or was the first to use it
    bool before = false;           ///< it was there when the watch began
    bool is_adopted = false;
    bool is_workspace = false;
    bool by_update = false;   ///< an optimizer's step uses it
    bool by_others = false;   ///< forward or backward does
    bool is_updated = false;  ///< an optimizer's step writes to it

    bool is_from_outside() const { return before || is_adopted; }
  };
  struct Peak {
    size_t allocated = 0;
    std::vector<size_t> blocks;  ///< of blocks_
    size_t known = 0;            ///< so many were known then; more may be from before
  };

  /// The known block that an address lies in, or the end.
  std::map<const std::byte*, size_t>::iterator find(const std::byte* address);
  /// The block that an argument lies in; one from before where no other is known.
  Block* block_of(const Arg& arg, Device device);
  static size_t PeakMemory::* part_of(const Block& block);
  static std::string name_of(const Block& block);

  mutable Mutex mutex_;
  std::vector<Block> blocks_;
  std::map<const std::byte*, size_t> live_;  ///< of blocks_, by address
  std::set<Maker> makers_;
  std::map<std::pair<DeviceKind, int>, Peak> peaks_;
};

}  // namespace mica::profiler

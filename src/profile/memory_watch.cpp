#include "mica/profile/memory_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <tuple>

#include "mica/graph/value_bytes.h"
#include "mica/op/op_def.h"
#include "mica/profile/profile.h"
#include "mica/runtime/op_scope.h"

namespace mica::profiler {
namespace {

/// What the thread took for ops whose runs have not ended yet: where, and the block's number.
thread_local std::vector<std::pair<const std::byte*, size_t>> t_taken;

}  // namespace

void MemoryWatch::clear() {
  const std::lock_guard lock(mutex_);
  blocks_.clear();
  live_.clear();
  makers_.clear();
  peaks_.clear();
}

std::map<const std::byte*, size_t>::iterator MemoryWatch::find(const std::byte* address) {
  const auto after = live_.upper_bound(address);
  if (after == live_.begin()) return live_.end();
  const auto at = std::prev(after);
  return at->first + blocks_[at->second].bytes > address ? at : live_.end();
}

void MemoryWatch::took(const std::byte* data, size_t bytes, Device device, bool is_adopted) {
  if (!data || bytes == 0) return;
  const char* op = is_adopted ? nullptr : current_op();
  const std::lock_guard lock(mutex_);
  if (is_adopted && find(data) != live_.end()) return;
  live_[data] = blocks_.size();
  if (op) t_taken.emplace_back(data, blocks_.size());
  blocks_.push_back({.device = device, .bytes = bytes, .op = op, .is_adopted = is_adopted});
}

void MemoryWatch::gives_back(const std::byte* data, size_t bytes, bool is_adopted) {
  const std::lock_guard lock(mutex_);
  for (auto at = live_.lower_bound(data); at != live_.end() && at->first < data + bytes;) {
    const Block& block = blocks_[at->second];
    at = is_adopted && !block.is_adopted && !block.before ? std::next(at) : live_.erase(at);
  }
}

MemoryWatch::Block* MemoryWatch::block_of(const Arg& arg, Device device) {
  if (!arg.data || !arg.spec->defined || arg.spec->numel() == 0) return nullptr;
  const auto* begin = static_cast<const std::byte*>(arg.data);
  const std::byte* end = begin + extent_bytes(*arg.spec);
  auto at = find(begin);
  if (at == live_.end()) {
    at = live_.emplace(begin, blocks_.size()).first;
    blocks_.push_back({.device = device, .before = true});
  }
  Block& block = blocks_[at->second];
  if (block.before) {  // only parts of it may have been seen
    for (auto next = std::next(at); next != live_.end() && next->first < end;) {
      blocks_[next->second].bytes = 0;
      next = live_.erase(next);
    }
    block.bytes = std::max(block.bytes, static_cast<size_t>(end - at->first));
  }
  return &block;
}

void MemoryWatch::ran(const KernelRun& run, const Scope& scope) {
  const std::lock_guard lock(mutex_);
  const Maker* maker = &*makers_.insert({scope.module, scope.phase}).first;
  const bool update = scope.phase == Phase::update;
  const OpDef& op = *run.prepared.op;
  const int n = static_cast<int>(run.in.size());
  for (int i = 0; i < n; ++i) {
    Block* block = block_of(run.in[static_cast<size_t>(i)], run.device);
    if (!block) continue;
    (update ? block->by_update : block->by_others) = true;
    if (update && op.writes(run.params, i, n)) block->is_updated = true;
    if (block->is_from_outside() && !block->maker) block->maker = maker;
  }
  std::erase_if(t_taken, [&](const auto& taken) {
    const auto& [data, number] = taken;
    const auto at = live_.find(data);
    if (at == live_.end() || at->second != number) return true;
    Block& block = blocks_[number];
    if (std::string_view(block.op) != op.name) return false;  // of an op around this one
    block.maker = maker;
    block.is_workspace = std::ranges::none_of(
        run.out, [&](const Arg& a) { return a.data >= data && a.data < data + block.bytes; });
    return true;
  });
}

void MemoryWatch::look(Device device, size_t allocated) {
  const std::lock_guard lock(mutex_);
  Peak& peak = peaks_[{device.kind, device.index}];
  // Few of many higher and higher peaks are looked at.
  if (allocated <= peak.allocated + peak.allocated / 50) return;
  peak.allocated = allocated;
  peak.blocks.clear();
  peak.known = blocks_.size();
  for (const auto& [data, number] : live_)
    if (blocks_[number].device == device) peak.blocks.push_back(number);
}

size_t PeakMemory::* MemoryWatch::part_of(const Block& b) {
  if (b.is_workspace) return &PeakMemory::workspace;
  if (b.is_from_outside() && b.by_update)
    return b.by_others    ? &PeakMemory::weights
           : b.is_updated ? &PeakMemory::optimizer
                          : &PeakMemory::gradients;
  if (b.is_from_outside()) return &PeakMemory::data;
  if (!b.maker) return &PeakMemory::others;
  if (b.maker->second == Phase::update)
    return b.is_updated ? &PeakMemory::optimizer : &PeakMemory::updates;
  return b.maker->second == Phase::forward ? &PeakMemory::activations : &PeakMemory::gradients;
}

std::string MemoryWatch::name_of(const Block& b) {
  if (b.is_workspace) return fmt::format("workspace of {}", b.op);
  if (!b.is_from_outside()) return b.op ? b.op : "no op";
  const auto part = part_of(b);
  return part == &PeakMemory::weights     ? "weights"
         : part == &PeakMemory::optimizer ? "state of the optimizer"
         : part == &PeakMemory::gradients ? "gradients"
                                          : "data";
}

PeakMemory MemoryWatch::peak() const {
  const std::lock_guard lock(mutex_);
  PeakMemory peak;
  const auto gpu = peaks_.find({DeviceKind::cuda, 0});
  const auto most = gpu != peaks_.end() ? gpu : peaks_.find({DeviceKind::cpu, 0});
  if (most == peaks_.end()) return peak;
  const Device device{most->first.first, 0};
  std::vector<size_t> blocks = most->second.blocks;
  for (size_t number = most->second.known; number < blocks_.size(); ++number)
    if (blocks_[number].before && blocks_[number].device == device) blocks.push_back(number);
  Held holders;
  for (const size_t number : blocks) {
    const Block& b = blocks_[number];
    const auto part = part_of(b);
    peak.*part += b.bytes;
    const Maker maker = part == &PeakMemory::data ? Maker(kDataPath, Phase::forward)
                        : b.maker                 ? *b.maker
                                                  : Maker();
    holders[{name_of(b), maker.first, maker.second}] += b.bytes;
  }
  peak.device = device;
  peak.before = most->second.allocated - std::min(most->second.allocated, peak.total());
  peak.holders = holders_of(holders);
  return peak;
}

}  // namespace mica::profiler

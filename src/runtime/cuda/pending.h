#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <vector>

namespace mica {

/// Work on a stream that uses a block.
struct StreamUse {
  int device;
  cudaStream_t stream;
  bool operator==(const StreamUse&) const = default;
};

/// Blocks that must not be used again before streams have passed certain points. `Block` counts
/// these in its member `pending`. Guarded by its owner's mutex.
template <class Block>
class PendingBlocks {
 public:
  PendingBlocks() = default;
  ~PendingBlocks() {
    for (const Wait& w : waits_) cudaEventDestroy(w.event);
    for (const auto& [device, events] : unused_)
      for (cudaEvent_t event : events) cudaEventDestroy(event);
  }
  PendingBlocks(const PendingBlocks&) = delete;
  PendingBlocks& operator=(const PendingBlocks&) = delete;

  bool empty() const { return waits_.empty(); }

  /// The block waits for what was sent to the stream so far.
  void add(Block* block, StreamUse use) noexcept {
    cudaEvent_t event = take_event(use.device);
    if (event && cudaEventRecord(event, use.stream) == cudaSuccess) {
      waits_.push_back({block, event, use.device});
      ++block->pending;
      return;
    }
    if (event) unused_[use.device].push_back(event);
    cudaStreamSynchronize(use.stream);  // fails at once where the context is lost
    cudaGetLastError();
  }

  /// Calls `ready` with each block whose last point was passed; waits for them all on request.
  template <class F>
  void collect(bool wait, F&& ready) noexcept {
    std::vector<Block*> done;
    std::erase_if(waits_, [&](const Wait& w) {
      const cudaError_t code = wait ? cudaEventSynchronize(w.event) : cudaEventQuery(w.event);
      if (code == cudaErrorNotReady) {
        cudaGetLastError();
        return false;
      }
      // An error means that nothing runs any more.
      unused_[w.device].push_back(w.event);
      if (--w.block->pending == 0) done.push_back(w.block);
      return true;
    });
    for (Block* block : done) ready(block);
  }

 private:
  struct Wait {
    Block* block;
    cudaEvent_t event;
    int device;
  };

  cudaEvent_t take_event(int device) noexcept {
    std::vector<cudaEvent_t>& events = unused_[device];
    cudaEvent_t event = nullptr;
    if (!events.empty()) {
      event = events.back();
      events.pop_back();
      return event;
    }
    int before = device;
    cudaGetDevice(&before);
    if (before != device) cudaSetDevice(device);
    if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) event = nullptr;
    if (before != device) cudaSetDevice(before);
    return event;
  }

  std::vector<Wait> waits_;
  std::map<int, std::vector<cudaEvent_t>> unused_;  ///< by device
};

}  // namespace mica

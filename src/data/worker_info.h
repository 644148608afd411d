#pragma once

#include <cstdint>

namespace mica::data {

/// What a thread that prepares batches knows of itself.
struct WorkerInfo {
  int64_t index = 0;
  int64_t count = 1;
  uint64_t seed =
      0;  ///< for random numbers of its own: of the loader's seed, the epoch and the index
};

/// That of the first worker of an epoch; the others count on from it.
uint64_t worker_seed(uint64_t loader_seed, int64_t epoch);

/// Of the thread that asks; null in one that prepares no batches for others.
const WorkerInfo* worker_info();

/// Whether the thread has asked since it was last set to false: a stream that asks splits itself.
bool& asked_for_worker_info();

/// Gives the thread its own as long as it lives.
class WorkerScope {
 public:
  explicit WorkerScope(const WorkerInfo& info);
  ~WorkerScope();
  WorkerScope(const WorkerScope&) = delete;
  WorkerScope& operator=(const WorkerScope&) = delete;

  void set_count(int64_t count) { info_.count = count; }

 private:
  WorkerInfo info_;
  const WorkerInfo* before_;
};

}  // namespace mica::data

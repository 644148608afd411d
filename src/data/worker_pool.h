#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "mica/data/dataset.h"
#include "mica/data/worker_info.h"

namespace mica::data {

/// Threads that make numbered pieces ahead of who takes them, in order.
class WorkerPool {
 public:
  using Make = std::function<Batch(int64_t piece)>;

  /// Pieces [first, end), at most `ahead` of them made and not yet taken.
  WorkerPool(int workers, uint64_t seed, int64_t first, int64_t end, int64_t ahead, Make make);
  /// Waits for the threads, which finish the piece they are at.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// The next piece; raises what its making raised, and goes on with the one after it when asked
  /// again.
  Batch take();
  /// How many were taken, those that raised among them.
  int64_t taken() const { return taken_; }

  /// No more are begun. Whether none is in progress: the destructor does not wait then.
  bool stop();
  /// Its threads are in the process that this one was forked from: it can only be left alone.
  bool forked() const;

 private:
  struct Piece {
    Batch batch;
    std::exception_ptr error;
  };
  void work(const WorkerInfo& info);

  const Make make_;
  const int64_t end_;
  const int64_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const int64_t process_;           ///< that its threads run in
  int64_t taken_;                   ///< pieces before this one
  int64_t begun_;                   ///< pieces before this one are made or being made
  std::map<int64_t, Piece> ready_;  ///< by number
  int working_ = 0;                 ///< pieces in progress
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mica::data

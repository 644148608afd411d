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

namespace mica::data {

/// Threads that make numbered pieces ahead of who takes them, in order.
class WorkerPool {
 public:
  using Make = std::function<Batch(int64_t piece)>;

  /// Pieces [first, end), at most `ahead` of them made and not yet taken.
  WorkerPool(int workers, int64_t first, int64_t end, int64_t ahead, Make make);
  /// Waits for the threads, which finish the piece they are at.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// The next piece; raises what its making raised.
  Batch take();

 private:
  struct Piece {
    Batch batch;
    std::exception_ptr error;
  };
  void work();

  const Make make_;
  const int64_t end_;
  const int64_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t taken_;                   ///< pieces before this one
  int64_t begun_;                   ///< pieces before this one are made or being made
  std::map<int64_t, Piece> ready_;  ///< by number
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mica::data

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "mica/data/dataset.h"

namespace mica::data {

struct StreamBatch {
  Batch batch;
  int64_t whole = 0;  ///< examples in all shards together
};

/// Threads that each make the batches of a part of a stream ahead of who takes them: one of each
/// part in turn, without those that have ended.
class StreamWorkers {
 public:
  struct Lane {
    int64_t parts = 1;  ///< how many there are
    std::function<std::optional<StreamBatch>()> next;
  };
  /// Opens a part in the thread that calls it.
  using Open = std::function<Lane(int64_t index, int64_t count)>;

  /// At most `ahead` batches are made and not yet taken, at least one of each part.
  StreamWorkers(int workers, uint64_t seed, int64_t ahead, Open open);
  /// Waits for the threads, which finish the batch they are at.
  ~StreamWorkers();
  StreamWorkers(const StreamWorkers&) = delete;
  StreamWorkers& operator=(const StreamWorkers&) = delete;

  /// None at the end of all parts; raises what making the batch raised.
  std::optional<StreamBatch> take();
  /// No more are begun. Whether none is in progress: the destructor does not wait then.
  bool stop();
  /// Its threads are in the process that this one was forked from: it can only be left alone.
  bool forked() const;

 private:
  struct Made {
    StreamBatch batch;
    std::exception_ptr error;
  };
  struct Queue {
    std::deque<Made> ready;
    bool ended = false;
  };
  void work(int64_t index);
  void make_all(int64_t index, const Lane& lane, std::unique_lock<std::mutex>& lock);

  const Open open_;
  const int64_t workers_;
  const uint64_t seed_;
  const int64_t ahead_;
  const int64_t process_;  ///< that its threads run in
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t parts_ = 0;  ///< 0 until part 0 has said it
  std::vector<Queue> queues_;
  size_t turn_ = 0;
  int working_ = 0;  ///< threads that are making something
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mica::data

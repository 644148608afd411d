#include "mica/data/worker_pool.h"

#include <unistd.h>

#include <chrono>
#include <mutex>

#include "mica/core/check.h"
#include "mica/core/interrupt.h"
#include "mica/core/range.h"
#include "mica/op/settings.h"

namespace mica::data {

WorkerPool::WorkerPool(int workers, uint64_t seed, int64_t first, int64_t end, int64_t ahead,
                       Make make)
    : make_(std::move(make)),
      end_(end),
      ahead_(ahead),
      process_(getpid()),
      taken_(first),
      begun_(first) {
  threads_.reserve(static_cast<size_t>(workers));
  try {
    for (int i = 0; i < workers; ++i) {
      const WorkerInfo info = {i, workers, seed + static_cast<uint64_t>(i)};
      threads_.emplace_back([this, info] { work(info); });
    }
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;  // with fewer threads it goes on
  }
}

WorkerPool::~WorkerPool() {
  stop();
  for (std::thread& t : threads_) t.join();
}

bool WorkerPool::stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  return working_ == 0;
}

bool WorkerPool::forked() const { return getpid() != process_; }

Batch WorkerPool::take() {
  check<DeviceError>(!forked(),
                     "data::Loader: this walk began before the process was forked, and its workers "
                     "are not in this one: begin another");
  constexpr auto kPatience = std::chrono::milliseconds(50);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPatience, [&] { return ready_.contains(taken_); })) {
    lock.unlock();  // a worker may hold what the check waits for
    poll_interrupt();
    lock.lock();
  }
  const Piece piece = std::move(ready_.extract(taken_).mapped());
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  if (piece.error) std::rethrow_exception(piece.error);
  return piece.batch;
}

void WorkerPool::work(const WorkerInfo& info) {
  use_one_thread();  // the workers are the parallelism
  const WorkerScope scope(info);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || begun_ >= end_ || begun_ < taken_ + ahead_; });
    if (stop_ || begun_ >= end_) return;
    const int64_t number = begun_++;
    ++working_;
    lock.unlock();
    Piece piece;
    try {
      const Range range("making a batch", RangeKind::load);
      piece.batch = make_(number);
    } catch (...) {
      piece.error = std::current_exception();
    }
    lock.lock();
    --working_;
    ready_.emplace(number, std::move(piece));
    changed_.notify_all();
  }
}

}  // namespace mica::data

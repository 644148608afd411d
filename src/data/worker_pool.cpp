#include "mica/data/worker_pool.h"

#include <omp.h>

#include <chrono>

#include "mica/core/interrupt.h"
#include "mica/op/settings.h"

namespace mica::data {

WorkerPool::WorkerPool(int workers, int64_t first, int64_t end, int64_t ahead, Make make)
    : make_(std::move(make)), end_(end), ahead_(ahead), taken_(first), begun_(first) {
  threads_.reserve(static_cast<size_t>(workers));
  try {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;  // with fewer threads it goes on
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

Batch WorkerPool::take() {
  constexpr auto kPatience = std::chrono::milliseconds(50);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPatience, [&] { return ready_.contains(taken_); })) {
    lock.unlock();  // a worker may hold what the check waits for
    poll_interrupt();
    lock.lock();
  }
  const auto found = ready_.find(taken_);
  if (found->second.error) std::rethrow_exception(found->second.error);  // again, if asked again
  Batch batch = std::move(found->second.batch);
  ready_.erase(found);
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void WorkerPool::work() {
  // Kernels called here use one thread: the workers are the parallelism.
  adopt_num_threads();
  omp_set_num_threads(1);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || begun_ >= end_ || begun_ < taken_ + ahead_; });
    if (stop_ || begun_ >= end_) return;
    const int64_t number = begun_++;
    lock.unlock();
    Piece piece;
    try {
      piece.batch = make_(number);
    } catch (...) {
      piece.error = std::current_exception();
    }
    lock.lock();
    ready_.emplace(number, std::move(piece));
    changed_.notify_all();
  }
}

}  // namespace mica::data

#include "mica/data/stream_workers.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <system_error>

#include "mica/core/check.h"
#include "mica/core/interrupt.h"
#include "mica/core/range.h"
#include "mica/data/worker_info.h"
#include "mica/op/settings.h"

namespace mica::data {

StreamWorkers::StreamWorkers(int workers, uint64_t seed, int64_t ahead, Open open)
    : open_(std::move(open)),
      workers_(workers),
      seed_(seed),
      ahead_(ahead),
      process_(getpid()),
      queues_(static_cast<size_t>(workers)) {
  threads_.reserve(static_cast<size_t>(workers));
  try {
    for (int64_t i = 0; i < workers; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (...) {  // a part without a reader would be missing
    stop();
    for (std::thread& t : threads_) t.join();
    throw;
  }
}

StreamWorkers::~StreamWorkers() {
  stop();
  for (std::thread& t : threads_) t.join();
}

bool StreamWorkers::stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  return working_ == 0;
}

bool StreamWorkers::forked() const { return getpid() != process_; }

std::optional<StreamBatch> StreamWorkers::take() {
  check<DeviceError>(!forked(),
                     "data::Loader: this walk began before the process was forked, and its workers "
                     "are not in this one: begin another");
  constexpr auto kPatience = std::chrono::milliseconds(50);
  std::unique_lock lock(mutex_);
  const auto wait_until = [&](auto&& holds) {
    while (!changed_.wait_for(lock, kPatience, holds)) {
      lock.unlock();  // a worker may hold what the check waits for
      poll_interrupt();
      lock.lock();
    }
  };
  wait_until([&] { return parts_ > 0; });
  const auto parts = static_cast<size_t>(parts_);
  for (size_t tried = 0; tried < parts; ++tried) {
    Queue& queue = queues_[turn_];
    wait_until([&] { return queue.ended || !queue.ready.empty(); });
    turn_ = (turn_ + 1) % parts;
    if (queue.ready.empty()) continue;
    const Made made = std::move(queue.ready.front());
    queue.ready.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (made.error) std::rethrow_exception(made.error);
    return made.batch;
  }
  return {};
}

void StreamWorkers::work(int64_t index) {
  use_one_thread();  // the workers are the parallelism
  WorkerScope scope({index, workers_, seed_ + static_cast<uint64_t>(index)});
  std::unique_lock lock(mutex_);
  Queue& queue = queues_[static_cast<size_t>(index)];
  if (index > 0) {
    changed_.wait(lock, [&] { return stop_ || parts_ > 0; });
    if (stop_ || index >= parts_) return;
  }
  ++working_;
  lock.unlock();
  Lane lane;
  std::exception_ptr error;
  try {
    lane = open_(index, workers_);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  --working_;
  if (index == 0) parts_ = std::clamp<int64_t>(lane.parts, 1, workers_);
  if (index == 0) scope.set_count(parts_);
  if (error) {
    queue.ready.push_back({{}, error});
  } else {
    make_all(index, lane, lock);
  }
  queue.ended = true;
  changed_.notify_all();
  // Outside the lock: what the part holds may wait for others when it goes.
  lock.unlock();
  lane = {};
}

void StreamWorkers::make_all(int64_t index, const Lane& lane, std::unique_lock<std::mutex>& lock) {
  Queue& queue = queues_[static_cast<size_t>(index)];
  const auto room = static_cast<size_t>(std::max<int64_t>((ahead_ + parts_ - 1) / parts_, 1));
  for (;;) {
    changed_.notify_all();
    changed_.wait(lock, [&] { return stop_ || queue.ready.size() < room; });
    if (stop_) return;
    ++working_;
    lock.unlock();
    Made made;
    bool ended = false;
    try {
      const Range range("making a batch", RangeKind::load);
      if (std::optional<StreamBatch> batch = lane.next()) {
        made.batch = std::move(*batch);
      } else {
        ended = true;
      }
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    --working_;
    if (ended) return;
    queue.ready.push_back(std::move(made));
  }
}

}  // namespace mica::data

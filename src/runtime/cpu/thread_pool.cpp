#include "mica/runtime/cpu/thread_pool.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "mica/core/fork.h"
#include "mica/runtime/cpu/callers.h"

namespace mica {
namespace {

/// How often a thread looks for something to do before it sleeps: some 5 to 20 µs. Kernels that
/// follow each other find the pool awake, and other programs lose no more than that.
constexpr int kLooks = 400;

void pause_a_moment() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

thread_local bool t_in_pool = false;

struct Job {
  Job(void (*f)(const void*, int64_t), const void* with, int64_t parts, int others)
      : run(f), context(with), count(parts), places(others) {}

  void (*run)(const void*, int64_t);
  const void* context;
  int64_t count;
  int places;                    ///< for threads of the pool; under its mutex
  Job* after = nullptr;          ///< in its list; under its mutex
  std::atomic<int64_t> next{0};  ///< part
  std::atomic<int> helpers{0};   ///< threads of the pool that are at it
  std::atomic<bool> failed{false};
  std::exception_ptr error;  ///< of the part that failed first

  bool has_parts() const { return next.load(std::memory_order_relaxed) < count; }

  void work() {
    for (int64_t i = 0; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) try {
        run(context, i);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
  }
};

/// Threads for all callers. It is never taken down: they may be at work when the program ends.
class ThreadPool {
 public:
  static ThreadPool& get() {
    static ThreadPool* const pool = new ThreadPool;
    return *pool;
  }

  void run(Job& job) {
    const int wanted = job.places;
    add(job);
    calls_.fetch_add(1);
    if (asleep_.load() > 0) wanted == 1 ? calls_.notify_one() : calls_.notify_all();
    {
      const ThreadLimit one(1);  // what a part calls must not start threads of its own
      t_in_pool = true;
      job.work();
      t_in_pool = false;
    }
    remove(job);  // nobody comes any more, and those that are there end their parts
    for (int looks = 0; looks < kLooks && job.helpers.load() > 0; ++looks) pause_a_moment();
    if (job.helpers.load() == 0) return;
    waiting_.fetch_add(1);
    for (uint32_t seen = ends_.load(); job.helpers.load() > 0; seen = ends_.load())
      ends_.wait(seen);
    waiting_.fetch_sub(1);
  }

 private:
  void add(Job& job) {
    const std::lock_guard lock(mutex_);
    try {
      for (; threads_ < job.places; ++threads_) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {  // there are no more to be had: others do the work
    }
    job.after = first_;
    first_ = &job;
  }

  void remove(const Job& job) {
    const std::lock_guard lock(mutex_);
    Job** at = &first_;
    while (*at != &job) at = &(*at)->after;
    *at = job.after;
  }

  /// One that has parts and places left, which this thread then helps; null where there is none.
  Job* join() {
    const std::lock_guard lock(mutex_);
    for (Job* job = first_; job; job = job->after)
      if (job->places > 0 && job->has_parts()) {
        --job->places;
        job->helpers.fetch_add(1);
        return job;
      }
    return nullptr;
  }

  [[noreturn]] void serve() {
    omp_set_num_threads(1);
    t_in_pool = true;
    for (;;) {
      const uint32_t seen = calls_.load();
      if (Job* job = join()) {
        job->work();
        // Its caller may be gone with it after this.
        if (job->helpers.fetch_sub(1) == 1 && waiting_.load() > 0) {
          ends_.fetch_add(1);
          ends_.notify_all();
        }
        continue;
      }
      int looks = 0;
      while (calls_.load(std::memory_order_relaxed) == seen && ++looks < kLooks) pause_a_moment();
      if (looks < kLooks) continue;
      asleep_.fetch_add(1);
      calls_.wait(seen);
      asleep_.fetch_sub(1);
    }
  }

  Mutex mutex_;
  Job* first_ = nullptr;
  int threads_ = 0;
  std::atomic<uint32_t> calls_{0};  ///< so many began; who sleeps waits for the next
  std::atomic<int> asleep_{0};
  std::atomic<uint32_t> ends_{0};  ///< of the last helper of a caller that may sleep
  std::atomic<int> waiting_{0};    ///< callers that may sleep
};

}  // namespace

void run_in_pool(int threads, int64_t count, void (*run)(const void* context, int64_t i),
                 const void* context) {
  Job job(run, context, count, static_cast<int>(std::min<int64_t>(threads, count)) - 1);
  ThreadPool::get().run(job);
  if (job.error) std::rethrow_exception(job.error);
}

bool in_pool() { return t_in_pool; }

}  // namespace mica

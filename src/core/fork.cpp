#include "mica/core/fork.h"

#include <pthread.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "mica/core/check.h"

namespace mica {
namespace detail {

/// All locks that a fork waits for. A constant initializer, since locks are made before main.
struct ForkLocks {
  std::mutex mutex;
  ForkLock* first = nullptr;
  std::atomic<int> forks = 0;
  bool watching = false;
  bool held = false;  // by a fork under way

  void add(ForkLock& lock) {
    const std::lock_guard guard(mutex);
    if (!watching) watching = pthread_atfork(take_all, give_back_all, begin_child) == 0;
    lock.after_ = first;
    if (first) first->before_ = &lock;
    first = &lock;
  }

  void remove(ForkLock& lock) {
    const std::lock_guard guard(mutex);
    (lock.before_ ? lock.before_->after_ : first) = lock.after_;
    if (lock.after_) lock.after_->before_ = lock.before_;
  }

  /// Gives all back where one is held: whoever holds that may wait for another.
  bool try_all() {
    for (ForkLock* lock = first; lock; lock = lock->after_)
      if (!lock->try_lock()) {
        for (ForkLock* taken = first; taken != lock; taken = taken->after_) taken->unlock();
        return false;
      }
    return true;
  }

  static void take_all();
  static void give_back_all();
  static void begin_child();
};

namespace {

constinit ForkLocks g_locks;

}  // namespace

/// A thread that holds a lock for long, against the rule, must not keep the fork from happening.
void ForkLocks::take_all() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  g_locks.mutex.lock();
  while (!(g_locks.held = g_locks.try_all()) && std::chrono::steady_clock::now() < until) {
    g_locks.mutex.unlock();
    std::this_thread::yield();
    g_locks.mutex.lock();
  }
}

void ForkLocks::give_back_all() {
  if (g_locks.held)
    for (ForkLock* lock = g_locks.first; lock; lock = lock->after_) lock->unlock();
  g_locks.mutex.unlock();
}

void ForkLocks::begin_child() {
  ++g_locks.forks;
  if (g_locks.held)
    for (ForkLock* lock = g_locks.first; lock; lock = lock->after_) lock->renew();
  g_locks.mutex.unlock();
}

ForkLock::ForkLock() { g_locks.add(*this); }
ForkLock::~ForkLock() { g_locks.remove(*this); }

}  // namespace detail

int forks() { return detail::g_locks.forks.load(std::memory_order_relaxed); }

void LongMutex::lock() {
  const int me = forks() + 1;
  thread_local const char own = 0;
  if (holder_ == me && thread_ == &own) {
    ++again_;
    return;
  }
  for (int holder = 0; !holder_.compare_exchange_weak(holder, me); holder = 0) {
    check<DeviceError>(holder == 0 || holder == me,
                       "compile: this process was forked while another thread was in this "
                       "function, which a fork leaves half done: start others by exec "
                       "(in Python by multiprocessing.get_context(\"spawn\"))");
    if (holder != 0) holder_.wait(holder);
  }
  thread_ = &own;
}

void LongMutex::unlock() {
  if (again_ > 0) {
    --again_;
    return;
  }
  thread_ = nullptr;
  holder_ = 0;
  holder_.notify_one();
}

}  // namespace mica

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>

namespace mica {

/// How often this process and those it was forked from were forked: what is remembered with another
/// number was done by threads that a fork left behind.
int forks();

namespace detail {

class ForkLock {
 public:
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;
  virtual bool try_lock() = 0;
  virtual void unlock() = 0;
  /// What unlock() is in a child, where the thread that locked it has another number.
  virtual void renew() = 0;

 protected:
  ForkLock();
  virtual ~ForkLock();

 private:
  friend struct ForkLocks;
  ForkLock* before_ = nullptr;
  ForkLock* after_ = nullptr;
};

/// A mutex that is free in a child process, and what it guards whole: fork() waits until no other
/// thread holds one. For a few lines that wait for nothing, above all not for Python.
template <class M>
class ForkSafe final : public ForkLock {
 public:
  void lock() { mutex_.lock(); }
  bool try_lock() override { return mutex_.try_lock(); }
  void unlock() override { mutex_.unlock(); }
  void renew() override { std::construct_at(&mutex_); }
  void lock_shared() { mutex_.lock_shared(); }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  M mutex_;
};

}  // namespace detail

using Mutex = detail::ForkSafe<std::mutex>;
using SharedMutex = detail::ForkSafe<std::shared_mutex>;

/// A mutex that is held for long, while a function is captured or run; its holder may lock it
/// again. In a child process whose parent's thread held it, lock() raises DeviceError: what that
/// thread was at is half done.
class LongMutex {
 public:
  void lock();
  void unlock();

 private:
  std::atomic<int> holder_ = 0;                ///< 0, or forks() + 1 of the process that holds it
  std::atomic<const void*> thread_ = nullptr;  ///< the address of something of its own
  int again_ = 0;
};

}  // namespace mica

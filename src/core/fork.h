#pragma once

#include <pthread.h>

#include <atomic>

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

}  // namespace detail

// Mutexes that are free in a child process, and what they guard whole: fork() waits until no other
// thread holds one. For a few lines that wait for nothing, above all not for Python. They are those
// of POSIX, whose header every program has: the standard's are long.

class Mutex final : public detail::ForkLock {
 public:
  void lock() { pthread_mutex_lock(&mutex_); }
  bool try_lock() override { return pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() override { pthread_mutex_unlock(&mutex_); }
  void renew() override { mutex_ = PTHREAD_MUTEX_INITIALIZER; }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

class SharedMutex final : public detail::ForkLock {
 public:
  void lock() { pthread_rwlock_wrlock(&mutex_); }
  bool try_lock() override { return pthread_rwlock_trywrlock(&mutex_) == 0; }
  void unlock() override { pthread_rwlock_unlock(&mutex_); }
  void renew() override { mutex_ = PTHREAD_RWLOCK_INITIALIZER; }
  void lock_shared() { pthread_rwlock_rdlock(&mutex_); }
  void unlock_shared() { pthread_rwlock_unlock(&mutex_); }

 private:
  pthread_rwlock_t mutex_ = PTHREAD_RWLOCK_INITIALIZER;
};

/// Holds a mutex while it lives: std::lock_guard for headers.
template <class M>
class Holding {
 public:
  explicit Holding(M& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Holding() { mutex_.unlock(); }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

 private:
  M& mutex_;
};

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

#pragma once

namespace mica {

/// A thread of the program that is about to compute with several threads, while it lives.
class ParallelCaller {
 public:
  ParallelCaller();
  ~ParallelCaller();
  ParallelCaller(const ParallelCaller&) = delete;
  ParallelCaller& operator=(const ParallelCaller&) = delete;

  /// Its share of `wanted` threads: the callers of this moment together have no more than there are
  /// cores, or one each.
  int threads(int wanted) const;

 private:
  int callers_;
};

/// Lets a library that the calling thread calls compute with so many threads while it lives.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

}  // namespace mica

#include "mica/runtime/cpu/callers.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

namespace mica {
namespace {

std::atomic<int> g_callers{0};
thread_local int t_depth = 0;  // a caller within a caller is the same one

}  // namespace

ParallelCaller::ParallelCaller()
    : callers_(t_depth++ == 0 ? g_callers.fetch_add(1, std::memory_order_relaxed) + 1
                              : g_callers.load(std::memory_order_relaxed)) {}

ParallelCaller::~ParallelCaller() {
  if (--t_depth == 0) g_callers.fetch_sub(1, std::memory_order_relaxed);
}

int ParallelCaller::threads(int wanted) const {
  if (callers_ == 1) return wanted;
  static const int cores = omp_get_num_procs();
  return std::max(1, std::min(wanted, cores / callers_));
}

ThreadLimit::ThreadLimit(int threads) : before_(omp_get_max_threads()) {
  if (threads < before_) omp_set_num_threads(threads);
}

ThreadLimit::~ThreadLimit() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

}  // namespace mica

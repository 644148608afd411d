#include "mica/data/walk.h"

#include "mica/core/philox.h"
#include "mica/data/worker_info.h"

namespace mica::data {
namespace {

thread_local const Making* t_making = nullptr;  // the innermost
thread_local const WorkerInfo* t_worker = nullptr;
thread_local bool t_asked = false;

}  // namespace

Making::Making(const void* walk) : walk_(walk), outer_(t_making) { t_making = this; }
Making::~Making() { t_making = outer_; }

bool Making::is_making(const void* walk) {
  for (const Making* at = t_making; at; at = at->outer_)
    if (at->walk_ == walk) return true;
  return false;
}

uint64_t worker_seed(uint64_t loader_seed, int64_t epoch) {
  const Philox4 words = philox(loader_seed, static_cast<uint64_t>(epoch));
  return uint64_t{words.v[0]} << 32 | words.v[1];
}

const WorkerInfo* worker_info() {
  t_asked = true;
  return t_worker;
}

bool& asked_for_worker_info() { return t_asked; }

WorkerScope::WorkerScope(const WorkerInfo& info) : info_(info), before_(t_worker) {
  t_worker = &info_;
}
WorkerScope::~WorkerScope() { t_worker = before_; }

}  // namespace mica::data

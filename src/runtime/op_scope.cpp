#include "mica/runtime/op_scope.h"

#include <atomic>
#include <utility>

namespace mica {
namespace {

thread_local const char* t_op = nullptr;
std::atomic<const OpListener*> g_listener{nullptr};

}  // namespace

const char* current_op() { return t_op; }

const OpListener* set_op_listener(const OpListener* listener) {
  return g_listener.exchange(listener, std::memory_order_acq_rel);
}

OpScope::OpScope(const char* op) : before_(std::exchange(t_op, op)), end_(nullptr) {
  const OpListener* listener = g_listener.load(std::memory_order_acquire);
  if (listener) [[unlikely]] {
    end_ = listener->end;
    listener->begin(op);
  }
}

OpScope::~OpScope() {
  t_op = before_;
  if (end_) [[unlikely]]
    end_();
}

}  // namespace mica

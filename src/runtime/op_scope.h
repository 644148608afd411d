#pragma once

namespace mica {

/// The op the calling thread works for; null outside of ops.
const char* current_op();

/// Who wants to know when ops begin and end, such as a profiler's timeline.
struct OpListener {
  void (*begin)(const char* op) = nullptr;
  void (*end)() = nullptr;
};
/// Null: nobody. The listener must stay; gives the one before.
const OpListener* set_op_listener(const OpListener* listener);

/// Says for which op memory is taken and kernels are launched while it lives. `op` must stay.
class OpScope {
 public:
  explicit OpScope(const char* op);
  ~OpScope();
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  const char* before_;
  void (*end_)();  ///< of the listener that was told of the beginning
};

}  // namespace mica

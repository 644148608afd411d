#pragma once

namespace mica {

/// The op the calling thread works for; null outside of ops.
const char* current_op();

/// Says for which op memory is taken and kernels are launched while it lives. `op` must stay.
class OpScope {
 public:
  explicit OpScope(const char* op);
  ~OpScope();
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  const char* before_;
};

}  // namespace mica

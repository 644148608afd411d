#include "mica/core/stack.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "mica/core/check.h"

namespace mica {
namespace {

constexpr size_t kReserve = size_t{256} << 10;  // for what is called at the last level

/// The lowest address of this thread's stack; 0 where the system does not tell.
uintptr_t lowest_address() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<uintptr_t>(lowest) : 0;
}

}  // namespace

void check_stack(const char* what) {
  thread_local const uintptr_t lowest = lowest_address();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  check(lowest == 0 || here - lowest > kReserve,
        "{}: nested so deep that the thread's stack is nearly used up", what);
}

}  // namespace mica

#pragma once

#include <cstdint>

namespace mica {

/// For tests of what is left when memory runs out: lets the n-th allocation of a Storage from now
/// on, counted from 1 over all devices and threads, raise OutOfMemory, and none for 0. Returns how
/// many there were since the last call with another n than 0.
int64_t fail_allocation(int64_t n);

}  // namespace mica

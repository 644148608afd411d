#pragma once

#include <cstdint>

namespace mica {

/// Calls run(context, i) for each i in [0, count), in the calling thread and in up to `threads` - 1
/// of the pool's, and returns when all are done. Parts are taken one by one: no thread is waited
/// for that has not begun one, so that a pool whose threads other programs keep from running costs
/// what one thread does. What the first part to fail throws is thrown on.
void run_in_pool(int threads, int64_t count, void (*run)(const void* context, int64_t i),
                 const void* context);

/// Whether this thread is at a part of such a call.
bool in_pool();

}  // namespace mica

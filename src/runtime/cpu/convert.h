#pragma once

#include <cstdint>

#include "mica/core/float8.h"
#include "mica/core/half.h"

namespace mica {

// Runs of n elements between their own type and the one arithmetic happens in. `stride` is in
// elements; dense runs (stride 1) are vectorised.

/// Any dtype's type T to C, which is a carrier: float, double, int64_t or uint64_t.
template <class T, class C>
void load_run(const T* from, int64_t stride, int64_t n, C* to);
/// C to T: floats become integers by truncation, integers wrap, anything but zero becomes true.
template <class T, class C>
void store_run(const C* from, int64_t n, T* to, int64_t stride);

/// Dense runs between float and double, Half or BFloat16, written past the caches. `stream_fence`
/// must follow before another thread reads them.
template <class S, class D>
void stream_run(const S* from, int64_t n, D* to);

}  // namespace mica

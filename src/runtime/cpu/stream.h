#pragma once

#include <cstddef>

namespace mica {

/// Results of at least so many bytes are better written past the caches: they would not stay there,
/// and each line would be read before it is written.
inline constexpr size_t kStreamingBytes = size_t{16} << 20;

/// Copies n bytes with stores past the caches. `stream_fence` must follow before another thread
/// reads them.
void stream_bytes(void* to, const void* from, size_t n);
void stream_fence();

}  // namespace mica

#include "mica/runtime/cpu/stream.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace mica {

#if defined(__AVX2__)

void stream_bytes(void* to, const void* from, size_t n) {
  constexpr size_t kLine = 64;
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  const size_t head = std::min(n, (0 - reinterpret_cast<uintptr_t>(out)) % kLine);
  std::memcpy(out, in, head);
  size_t i = head;
  for (; i + kLine <= n; i += kLine) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(out + i), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(out + i + 32), b);
  }
  std::memcpy(out + i, in + i, n - i);
}
void stream_fence() { _mm_sfence(); }

#else

void stream_bytes(void* to, const void* from, size_t n) { std::memcpy(to, from, n); }
void stream_fence() {}

#endif

}  // namespace mica

#include "mica/runtime/cpu/convert.h"

#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace mica {
namespace {

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    // BFloat16::from_float without its branch, so that loops of it are vectorised.
    const auto u = std::bit_cast<uint32_t>(static_cast<float>(x));
    const uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
    const uint32_t nan = (u >> 16) | 0x40U;
    BFloat16 y;
    y.bits = static_cast<uint16_t>((u & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
    return y;
  } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    return static_cast<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, Half>) {
    return Half(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void convert_dense(const From* from, int64_t n, To* to) {
  int64_t i = 0;
#if defined(__F16C__)
  if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>) {
    for (; i + 8 <= n; i += 8) {
      const auto bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
    }
  } else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Half>) {
    for (; i + 8 <= n; i += 8) {
      const __m256 x = _mm256_loadu_ps(from + i);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
  }
#endif
  for (; i < n; ++i) to[i] = converted<To>(from[i]);
}

}  // namespace

template <class T, class C>
void load_run(const T* from, int64_t stride, int64_t n, C* to) {
  if (stride == 1) return convert_dense(from, n, to);
  for (int64_t i = 0; i < n; ++i) to[i] = converted<C>(from[i * stride]);
}

template <class T, class C>
void store_run(const C* from, int64_t n, T* to, int64_t stride) {
  if (stride == 1) return convert_dense(from, n, to);
  for (int64_t i = 0; i < n; ++i) to[i * stride] = converted<T>(from[i]);
}

#define MICA_RUNS(T, C)                                         \
  template void load_run<T, C>(const T*, int64_t, int64_t, C*); \
  template void store_run<T, C>(const C*, int64_t, T*, int64_t);
#define MICA_RUNS_OF(C)  \
  MICA_RUNS(double, C)   \
  MICA_RUNS(float, C)    \
  MICA_RUNS(Half, C)     \
  MICA_RUNS(BFloat16, C) \
  MICA_RUNS(int64_t, C) MICA_RUNS(int32_t, C) MICA_RUNS(uint8_t, C) MICA_RUNS(bool, C)
MICA_RUNS_OF(float)
MICA_RUNS_OF(double)
MICA_RUNS_OF(int64_t)
#undef MICA_RUNS_OF
#undef MICA_RUNS

}  // namespace mica

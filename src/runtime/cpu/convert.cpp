#include "mica/runtime/cpu/convert.h"

#include <algorithm>
#include <type_traits>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace mica {
namespace {

template <class T>
inline constexpr bool kNarrowFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
                                     std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;

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
  } else if constexpr (kNarrowFloat<From> && !std::is_same_v<To, float>) {
    return converted<To>(static_cast<float>(x));
  } else if constexpr (kNarrowFloat<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint64_t>) {
    return x >= From(0x1p63) ? static_cast<uint64_t>(x)
                             : static_cast<uint64_t>(static_cast<int64_t>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 4) {
    return static_cast<To>(static_cast<int32_t>(x));  // wraps
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint32_t>) {
    return static_cast<uint32_t>(static_cast<int64_t>(x));
  } else {
    return static_cast<To>(x);
  }
}

/// Converts the first elements of a run by vectors and says how many, for the pairs of types that
/// the compiler does not vectorise, or not well.
template <class From, class To>
int64_t convert_vectors(const From*, int64_t, To*) {
  return 0;
}

/// The same with stores past the caches, to an address that is a multiple of kVectorBytes.
template <class From, class To>
int64_t stream_vectors(const From*, int64_t, To*) {
  return 0;
}
constexpr size_t kVectorBytes = 32;

#if defined(__AVX2__) && defined(__F16C__)

int64_t convert_vectors(const Half* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const auto bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
  }
  return i;
}

int64_t convert_vectors(const float* from, int64_t n, Half* to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_loadu_ps(from + i);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}

/// BFloat16::from_float, in the lower half of each lane.
__m256i bfloat_bits(__m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i high = _mm256_srli_epi32(u, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

__m256i bfloats(const float* from) {
  const __m256i low = bfloat_bits(_mm256_loadu_ps(from));
  const __m256i high = bfloat_bits(_mm256_loadu_ps(from + 8));
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
}

int64_t convert_vectors(const float* from, int64_t n, BFloat16* to) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), bfloats(from + i));
  return i;
}

int64_t stream_vectors(const float* from, int64_t n, double* to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_stream_pd(to + i, _mm256_cvtps_pd(_mm_loadu_ps(from + i)));
    _mm256_stream_pd(to + i + 4, _mm256_cvtps_pd(_mm_loadu_ps(from + i + 4)));
  }
  return i;
}

int64_t stream_vectors(const double* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128 low = _mm256_cvtpd_ps(_mm256_loadu_pd(from + i));
    const __m128 high = _mm256_cvtpd_ps(_mm256_loadu_pd(from + i + 4));
    _mm256_stream_ps(to + i, _mm256_set_m128(high, low));
  }
  return i;
}

int64_t stream_vectors(const Half* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const auto bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_stream_ps(to + i, _mm256_cvtph_ps(bits));
  }
  return i;
}

int64_t stream_vectors(const float* from, int64_t n, Half* to) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i low = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    const __m128i high = _mm256_cvtps_ph(_mm256_loadu_ps(from + i + 8), _MM_FROUND_TO_NEAREST_INT);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), _mm256_set_m128i(high, low));
  }
  return i;
}

int64_t stream_vectors(const BFloat16* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const auto bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), wide);
  }
  return i;
}

int64_t stream_vectors(const float* from, int64_t n, BFloat16* to) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), bfloats(from + i));
  return i;
}

/// Four doubles truncated; false where one is not below 2^51: the sum below needs its bits.
bool truncate(__m256d x, int64_t* to) {
  const __m256d size = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
  if (_mm256_movemask_pd(_mm256_cmp_pd(size, _mm256_set1_pd(0x1p51), _CMP_LT_OQ)) != 15)
    return false;
  const __m256d shift = _mm256_set1_pd(0x1.8p52);  // brings the units to the last bit
  const __m256d whole = _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __m256i bits = _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(whole, shift)),
                                        _mm256_castpd_si256(shift));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bits);
  return true;
}

int64_t convert_vectors(const double* from, int64_t n, int64_t* to) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    if (!truncate(_mm256_loadu_pd(from + i), to + i))
      for (int64_t k = i; k < i + 4; ++k) to[k] = static_cast<int64_t>(from[k]);
  return i;
}

int64_t convert_vectors(const float* from, int64_t n, int64_t* to) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    if (!truncate(_mm256_cvtps_pd(_mm_loadu_ps(from + i)), to + i))
      for (int64_t k = i; k < i + 4; ++k) to[k] = static_cast<int64_t>(from[k]);
  return i;
}

/// The halves of an integer become the fractions of two doubles; their sum is rounded once.
int64_t convert_vectors(const int64_t* from, int64_t n, double* to) {
  const __m256d low_part = _mm256_set1_pd(0x1p52);
  const __m256d high_part = _mm256_set1_pd(0x1.8p68);  // 3 * 2^67
  const __m256d both = _mm256_set1_pd(0x1.8p68 + 0x1p52);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i low = _mm256_blend_epi16(x, _mm256_castpd_si256(low_part), 0x88);
    const __m256i above =
        _mm256_blend_epi16(_mm256_srai_epi32(x, 16), _mm256_setzero_si256(), 0x33);
    const __m256i high = _mm256_add_epi64(above, _mm256_castpd_si256(high_part));
    const __m256d sum =
        _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), both), _mm256_castsi256_pd(low));
    _mm256_storeu_pd(to + i, sum);
  }
  return i;
}

/// By doubles, which hold integers below 2^51 exactly: rounded once.
int64_t convert_vectors(const int64_t* from, int64_t n, float* to) {
  const __m256d shift = _mm256_set1_pd(0x1.8p52);
  const __m256i middle = _mm256_set1_epi64x(int64_t{1} << 51);
  const __m256i outside = _mm256_set1_epi64x(-(int64_t{1} << 52));
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    if (!_mm256_testz_si256(_mm256_add_epi64(x, middle), outside)) {
      for (int64_t k = i; k < i + 4; ++k) to[k] = static_cast<float>(from[k]);
      continue;
    }
    const __m256i bits = _mm256_add_epi64(x, _mm256_castpd_si256(shift));
    _mm_storeu_ps(to + i, _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_castsi256_pd(bits), shift)));
  }
  return i;
}

#endif

template <class From, class To>
void convert_dense(const From* from, int64_t n, To* to) {
  for (int64_t i = convert_vectors(from, n, to); i < n; ++i) to[i] = converted<To>(from[i]);
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

template <class S, class D>
void stream_run(const S* from, int64_t n, D* to) {
  const size_t to_bound = (0 - reinterpret_cast<uintptr_t>(to)) % kVectorBytes / sizeof(D);
  const int64_t head = std::min(static_cast<int64_t>(to_bound), n);
  convert_dense(from, head, to);
  const int64_t end = head + stream_vectors(from + head, n - head, to + head);
  convert_dense(from + end, n - end, to + end);
}
template void stream_run<float, double>(const float*, int64_t, double*);
template void stream_run<double, float>(const double*, int64_t, float*);
template void stream_run<float, Half>(const float*, int64_t, Half*);
template void stream_run<Half, float>(const Half*, int64_t, float*);
template void stream_run<float, BFloat16>(const float*, int64_t, BFloat16*);
template void stream_run<BFloat16, float>(const BFloat16*, int64_t, float*);

#define MICA_RUNS(T, C)                                         \
  template void load_run<T, C>(const T*, int64_t, int64_t, C*); \
  template void store_run<T, C>(const C*, int64_t, T*, int64_t);
#define MICA_RUNS_OF(C)    \
  MICA_RUNS(double, C)     \
  MICA_RUNS(float, C)      \
  MICA_RUNS(Half, C)       \
  MICA_RUNS(BFloat16, C)   \
  MICA_RUNS(Float8E4M3, C) \
  MICA_RUNS(Float8E5M2, C) \
  MICA_RUNS(int64_t, C)    \
  MICA_RUNS(int32_t, C)    \
  MICA_RUNS(int16_t, C)    \
  MICA_RUNS(int8_t, C)     \
  MICA_RUNS(uint64_t, C)   \
  MICA_RUNS(uint32_t, C)   \
  MICA_RUNS(uint16_t, C)   \
  MICA_RUNS(uint8_t, C)    \
  MICA_RUNS(bool, C)
MICA_RUNS_OF(float)
MICA_RUNS_OF(double)
MICA_RUNS_OF(int64_t)
MICA_RUNS_OF(uint64_t)
#undef MICA_RUNS_OF
#undef MICA_RUNS

}  // namespace mica

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mica/op/kernel.h"
#include "mica/ops/linalg/matrix.h"

// Batches of small matrices: element (i, j) of as many matrices as a register holds lies side by
// side, so that one instruction works on all of them. LAPACK takes longer to be called than to
// compute such a matrix.
namespace mica::linalg {

inline constexpr int64_t kLargestInLanes = 32;

template <class T>
struct LanesOf;
template <>
struct LanesOf<float> {
  typedef float type __attribute__((vector_size(32)));
  typedef int32_t mask __attribute__((vector_size(32)));
};
template <>
struct LanesOf<double> {
  typedef double type __attribute__((vector_size(32)));
  typedef int64_t mask __attribute__((vector_size(32)));
};
template <class T>
using Lanes = typename LanesOf<T>::type;
template <class T>
using LaneMask = typename LanesOf<T>::mask;
template <class T>
inline constexpr int kLanes = 32 / static_cast<int>(sizeof(T));

inline Lanes<float> sqrt(Lanes<float> x) { return _mm256_sqrt_ps(x); }
inline Lanes<double> sqrt(Lanes<double> x) { return _mm256_sqrt_pd(x); }
inline Lanes<float> abs(Lanes<float> x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), x); }
inline Lanes<double> abs(Lanes<double> x) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), x); }
/// |x| with the sign of `sign`.
inline Lanes<float> copysign(Lanes<float> x, Lanes<float> sign) {
  const __m256 bit = _mm256_set1_ps(-0.0F);
  return _mm256_or_ps(_mm256_andnot_ps(bit, x), _mm256_and_ps(bit, sign));
}
inline Lanes<double> copysign(Lanes<double> x, Lanes<double> sign) {
  const __m256d bit = _mm256_set1_pd(-0.0);
  return _mm256_or_pd(_mm256_andnot_pd(bit, x), _mm256_and_pd(bit, sign));
}
/// One number in every lane of a mask.
template <class T>
LaneMask<T> lane_numbers(int64_t number) {
  using Element = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  return LaneMask<T>{} + static_cast<Element>(number);
}
template <class M>
bool any(M mask) {
  return _mm256_testz_si256(reinterpret_cast<__m256i>(mask), reinterpret_cast<__m256i>(mask)) == 0;
}

/// Matrices [first, first + lanes) of a batch, each of `elements`, into their lanes; of a batch
/// that ends before, the last one again.
template <class T>
void load_lanes(const T* batch, int64_t count, int64_t first, int64_t elements, Lanes<T>* to) {
  const T* from[kLanes<T>];
  for (int l = 0; l < kLanes<T>; ++l) from[l] = batch + std::min(first + l, count - 1) * elements;
  for (int64_t e = 0; e < elements; ++e)
    for (int l = 0; l < kLanes<T>; ++l) to[e][l] = from[l][e];
}
template <class T>
void store_lanes(const Lanes<T>* from, T* batch, int64_t count, int64_t first, int64_t elements) {
  const int used = static_cast<int>(std::min<int64_t>(kLanes<T>, count - first));
  for (int l = 0; l < used; ++l) {
    T* to = batch + (first + l) * elements;
    for (int64_t e = 0; e < elements; ++e) to[e] = from[e][l];
  }
}

/// Memory for lanes, aligned as they are.
template <class T>
class LaneBuffer {
 public:
  explicit LaneBuffer(int64_t elements) : values_(static_cast<size_t>(elements)) {}
  Lanes<T>* data() { return values_.data(); }
  Lanes<T>& operator[](int64_t i) { return values_[static_cast<size_t>(i)]; }

 private:
  std::vector<Lanes<T>> values_;
};

}  // namespace mica::linalg

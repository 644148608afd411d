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
inline Lanes<float> conj(Lanes<float> x) { return x; }
inline Lanes<double> conj(Lanes<double> x) { return x; }
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

/// Calls f(first) for every group of matrices that fill a register, on several threads.
template <class T, class F>
void for_lanes(int64_t count, double work, F&& f) {
  const int64_t groups = (count + kLanes<T> - 1) / kLanes<T>;
  for_matrices(groups, work, [&](int64_t begin, int64_t end) { f(begin, end); });
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

/// Whether a batch of real matrices is one that lanes are for; `largest` of the sizes.
inline Support supports_lanes(const Specs& s, int64_t largest, std::initializer_list<int> inputs) {
  if (largest > kLargestInLanes)
    return Support::no("it takes matrices of up to 32 rows and columns");
  const Shape& shape = s.in[0].shape;
  const int64_t count = matrices_in(shape);
  const int64_t lanes = s.in[0].dtype == DType::f64 ? kLanes<double> : kLanes<float>;
  return (count >= lanes ? Support::yes() : Support::possible()).with_contiguous(inputs);
}

}  // namespace mica::linalg

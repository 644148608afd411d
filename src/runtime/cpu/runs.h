#pragma once

#include <algorithm>
#include <array>
#include <type_traits>

#include "mica/core/dtype_switch.h"
#include "mica/runtime/cpu/convert.h"
#include "mica/runtime/cpu/simd.h"

// What kernels that go along dense rows are written with: a row of T in runs of the type that
// arithmetic happens in. Of float and double a run is the whole row where it lies; f16 and bf16
// pass through a buffer.
namespace mica {

inline constexpr int64_t kRunLength = 512;

template <class T>
inline constexpr bool kComputesInPlace = std::is_same_v<T, Compute<T>>;

/// Calls f(first, count) for the runs of a row of n.
template <class T, class F>
void for_runs(int64_t n, F&& f) {
  if constexpr (kComputesInPlace<T>) {
    if (n > 0) f(int64_t{0}, n);
  } else {
    for (int64_t i = 0; i < n; i += kRunLength) f(i, std::min(kRunLength, n - i));
  }
}

/// Reads runs of T; what it gives is good until it is asked again.
template <class T>
class RunReader {
 public:
  using C = Compute<T>;
  const C* operator()(const T* from, int64_t n) {
    if constexpr (kComputesInPlace<T>) {
      return from;
    } else {
      load_run(from, 1, n, buffer_.data());
      return buffer_.data();
    }
  }

 private:
  std::array<C, kComputesInPlace<T> ? 0 : kRunLength> buffer_;
};

/// Writes runs of T: results go where `place` says, then `finish` is told.
template <class T>
class RunWriter {
 public:
  using C = Compute<T>;
  C* place(T* to) {
    if constexpr (kComputesInPlace<T>) {
      return to;
    } else {
      return buffer_.data();
    }
  }
  void finish(T* to, int64_t n) {
    if constexpr (!kComputesInPlace<T>) store_run(buffer_.data(), n, to, 1);
  }

 private:
  std::array<C, kComputesInPlace<T> ? 0 : kRunLength> buffer_;
};

/// The first `count` lanes from memory, the others `rest`.
template <class C>
simd::Vec<C> load_lanes(const C* p, int64_t count, C rest) {
  simd::Vec<C> x(rest);
  if (count >= simd::Vec<C>::width) return simd::Vec<C>::load(p);
  for (int64_t i = 0; i < count; ++i) x.v[i] = p[i];
  return x;
}

template <class C>
void store_lanes(simd::Vec<C> x, C* p, int64_t count) {
  if (count >= simd::Vec<C>::width) return x.store(p);
  for (int64_t i = 0; i < count; ++i) p[i] = x[static_cast<int>(i)];
}

/// Calls f(i, count) for i = 0, width, 2 width, … < n, where count is the width but at the end.
template <class C, class F>
void for_vectors(int64_t n, F&& f) {
  constexpr int64_t kWidth = simd::Vec<C>::width;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) f(i, kWidth);
  if (i < n) f(i, n - i);
}

/// Sum of the vectors f(i, count) over a row of n, in one order whatever the compiler does.
template <class C, class F>
double sum_vectors(int64_t n, F&& f) {
  using Vec = simd::Vec<C>;
  constexpr int64_t kWidth = Vec::width;
  constexpr int64_t kBlock = 4096;  // elements that C sums up, so that a long row keeps its digits
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    Vec a(0), b(0), c(0), d(0);  // four chains of additions hide their latency
    int64_t i = begin;
    for (; i + 4 * kWidth <= end; i += 4 * kWidth) {
      a += f(i, kWidth);
      b += f(i + kWidth, kWidth);
      c += f(i + 2 * kWidth, kWidth);
      d += f(i + 3 * kWidth, kWidth);
    }
    for (; i + kWidth <= end; i += kWidth) a += f(i, kWidth);
    if (i < end) b += f(i, end - i);
    sum += static_cast<double>(simd::sum_lanes((a + b) + (c + d)));
  }
  return sum;
}

}  // namespace mica

#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "mica/core/dtype_switch.h"
#include "mica/runtime/cpu/convert.h"
#include "mica/runtime/cpu/simd.h"

// What kernels that go along dense rows are written with: a row of T in runs of the type that
// arithmetic happens in. Of float and double a run is the whole row where it lies; f16 and bf16
// pass through a buffer.
namespace mica {

inline constexpr int64_t kRunLength = 1024;

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
  if (count >= simd::Vec<C>::kWidth) return simd::Vec<C>::load(p);
  for (int64_t i = 0; i < count; ++i) x.v[i] = p[i];
  return x;
}

template <class C>
void store_lanes(simd::Vec<C> x, C* p, int64_t count) {
  if (count >= simd::Vec<C>::kWidth) return x.store(p);
  for (int64_t i = 0; i < count; ++i) p[i] = x[static_cast<int>(i)];
}

/// Calls f(i, count) for i = 0, width, 2 width, … < n, where count is the width but at the end.
template <class C, class F>
void for_vectors(int64_t n, F&& f) {
  constexpr int64_t kWidth = simd::Vec<C>::kWidth;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) f(i, kWidth);
  if (i < n) f(i, n - i);
}

template <class C>
inline constexpr C kInfinity = std::numeric_limits<C>::infinity();

/// Lane by lane; b where a is NaN.
template <class C>
simd::Vec<C> larger(simd::Vec<C> a, simd::Vec<C> b) {
  return select(a > b, a, b);
}

/// -infinity for a row of none. NaN does not count: it comes back with what is made of the row.
template <class C>
C largest_of(const C* x, int64_t n) {
  using Vec = simd::Vec<C>;
  constexpr int64_t kWidth = Vec::kWidth;
  Vec a(-kInfinity<C>), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    a = larger(Vec::load(x + i), a);
    b = larger(Vec::load(x + i + kWidth), b);
    c = larger(Vec::load(x + i + 2 * kWidth), c);
    d = larger(Vec::load(x + i + 3 * kWidth), d);
  }
  for (; i < n; i += kWidth) a = larger(load_lanes(x + i, n - i, -kInfinity<C>), a);
  a = larger(larger(a, b), larger(c, d));
  C largest = -kInfinity<C>;
  for (int k = 0; k < kWidth; ++k) largest = a[k] > largest ? a[k] : largest;
  return largest;
}

/// Two sums that one pass makes, and the vectors they are made of.
struct Sums {
  double first = 0;
  double second = 0;
};
template <class C>
struct VecPair {
  simd::Vec<C> first, second;

  VecPair& operator+=(const VecPair& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

namespace detail {

inline constexpr int64_t kSummedInC = 4096;  // elements; beyond them a long row would lose digits

template <class C>
void add_lanes(double& sum, simd::Vec<C> v) {
  sum += static_cast<double>(simd::sum_lanes(v));
}
template <class C>
void add_lanes(Sums& sums, VecPair<C> v) {
  add_lanes(sums.first, v.first);
  add_lanes(sums.second, v.second);
}

}  // namespace detail

/// Sum of f(i, count) over the vectors of a row of n, in one order whatever the compiler does. f
/// gives a vector or a VecPair; lanes past `count` must be zero.
template <class C, class F>
auto sum_vectors(int64_t n, F&& f) {
  using Value = decltype(f(int64_t{0}, int64_t{0}));
  constexpr bool kPair = std::is_same_v<Value, VecPair<C>>;
  constexpr int64_t kWidth = simd::Vec<C>::kWidth;
  const auto zero = [] {
    const simd::Vec<C> none(0);
    if constexpr (kPair) {
      return VecPair<C>{none, none};
    } else {
      return none;
    }
  };
  std::conditional_t<kPair, Sums, double> sum{};
  for (int64_t begin = 0; begin < n; begin += detail::kSummedInC) {
    const int64_t end = std::min(n, begin + detail::kSummedInC);
    Value a = zero(), b = zero(), c = zero(), d = zero();  // four chains hide the latency
    int64_t i = begin;
    for (; i + 4 * kWidth <= end; i += 4 * kWidth) {
      a += f(i, kWidth);
      b += f(i + kWidth, kWidth);
      c += f(i + 2 * kWidth, kWidth);
      d += f(i + 3 * kWidth, kWidth);
    }
    for (; i + kWidth <= end; i += kWidth) a += f(i, kWidth);
    if (i < end) b += f(i, end - i);
    a += b;
    c += d;
    a += c;
    detail::add_lanes(sum, a);
  }
  return sum;
}

/// Sum of f(x, y) over a dense run, where f takes vectors and gives a vector or a VecPair; y may be
/// x. In lanes past the end x is `rest`, of which nothing may come, and y is 0.
template <class T, class F>
auto sum_run(const T* x, const T* y, double rest, int64_t n, F&& f) {
  using C = Compute<T>;
  using Vec = simd::Vec<C>;
  RunReader<T> read_x, read_y;
  const auto sum_of = [&](int64_t i, int64_t count) {
    const C* a = read_x(x + i, count);
    const C* b = x == y ? a : read_y(y + i, count);
    return sum_vectors<C>(count, [&](int64_t k, int64_t lanes) {
      const Vec u = load_lanes(a + k, lanes, static_cast<C>(rest));
      return f(u, x == y ? u : load_lanes(b + k, lanes, C(0)));
    });
  };
  decltype(sum_of(0, 0)) sum{};
  for_runs<T>(n, [&](int64_t i, int64_t count) {
    const auto more = sum_of(i, count);
    if constexpr (std::is_same_v<decltype(sum), Sums>) {
      sum.first += more.first;
      sum.second += more.second;
    } else {
      sum += more;
    }
  });
  return sum;
}

/// to = f(x, y) over a dense run.
template <class T, class F>
void map_run(const T* x, const T* y, T* to, int64_t n, F&& f) {
  using C = Compute<T>;
  RunReader<T> read_x, read_y;
  RunWriter<T> writer;
  for_runs<T>(n, [&](int64_t i, int64_t count) {
    const C* a = read_x(x + i, count);
    const C* b = x == y ? a : read_y(y + i, count);
    C* out = writer.place(to + i);
    for_vectors<C>(count, [&](int64_t k, int64_t lanes) {
      store_lanes(f(load_lanes(a + k, lanes, C(0)), load_lanes(b + k, lanes, C(0))), out + k,
                  lanes);
    });
    writer.finish(to + i, count);
  });
}

}  // namespace mica

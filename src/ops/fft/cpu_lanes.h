#pragma once

// The discrete Fourier transform of as many lines at once as a vector has lanes. Element i of all
// lines lies at [2 i] (real parts) and [2 i + 1] (imaginary parts), a vector each, so that one
// butterfly serves all lines and nothing is shuffled. Stockham's passes, which leave the result in
// order; the backward transform is the forward one with the parts exchanged. The first pass brings
// the elements from where they lie, the last one takes them to where they go.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "mica/ops/fft/cpu_butterflies.h"

namespace mica::fft {

/// exp(-2 pi i k / n), from an angle of at most an eighth of the circle: exact to the last digit.
inline Complex<double> root_of_unity(int64_t k, int64_t n) {
  k %= n;
  const int64_t eighth = 8 * k / n;
  const auto angle = [&](int64_t numerator) {  // of 8 n parts of the circle
    return 2 * std::numbers::pi * static_cast<double>(numerator) / (8 * static_cast<double>(n));
  };
  const bool odd = eighth % 2 == 1;
  const int64_t rest = 8 * k - eighth * n;
  const double a = angle(odd ? n - rest : rest);
  double c = std::cos(a);
  double s = std::sin(a);
  if (odd) std::swap(c, s);  // pi/4 - a
  switch (eighth / 2) {
    case 0:
      return {c, -s};
    case 1:
      return {-s, -c};
    case 2:
      return {-c, s};
    default:
      return {s, c};
  }
}

/// Radices of the passes that can bring elements or take them away.
inline bool joins_ends(int64_t radix) { return radix == 4 || radix == 5 || radix == 8; }

/// Factors that have a butterfly; empty where one of n's is larger.
inline std::vector<int64_t> small_factors(int64_t n) {
  constexpr int64_t kLargest = 13;
  std::vector<int64_t> factors;
  // Eights and fours as long as no two is left over: each pass goes through all numbers.
  for (; n % 8 == 0 && n / 8 % 4 != 2; n /= 8) factors.push_back(8);
  for (const int64_t f : {4, 2, 3, 5})
    for (; n % f == 0; n /= f) factors.push_back(f);
  for (int64_t f = 7; f <= kLargest; f += 2)
    for (; n % f == 0; n /= f) factors.push_back(f);
  if (n != 1) factors.clear();
  // The ends are for those that can move elements in and out, where there are any.
  const auto found = std::find_if(factors.begin(), factors.end(), joins_ends);
  if (found == factors.end()) return factors;
  std::iter_swap(factors.begin(), found);
  const auto other = std::find_if(factors.begin() + 1, factors.end(), joins_ends);
  if (other != factors.end()) std::iter_swap(other, factors.end() - 1);
  return factors;
}
inline bool is_smooth(int64_t n) { return n == 1 || !small_factors(n).empty(); }

/// How many elements are brought or taken at once.
template <class T>
inline constexpr int64_t kSquare = simd::Vec<T>::kWidth / 2;

/// Elements in lanes already, from data on. It may be part of a pass, as all sources and sinks of
/// whole blocks (kJoins); those of fewer lines, of which a tensor has one block, are not worth the
/// code.
template <class T>
struct Side {
  static constexpr bool kSingle = true;
  static constexpr bool kJoins = true;
  T* data;

  [[gnu::always_inline]] LanePair<T> one(int64_t i) const {
    return LanePair<T>::load(data + i * LanePair<T>::kStep);
  }
  [[gnu::always_inline]] void put(int64_t i, LanePair<T> x) const {
    x.store(data + i * LanePair<T>::kStep);
  }
};

template <class T>
class LaneTransform {
 public:
  static constexpr int64_t kWidth = simd::Vec<T>::kWidth;
  static constexpr int64_t kStep = LanePair<T>::kStep;  ///< values from one element to the next

  LaneTransform() = default;
  explicit LaneTransform(int64_t n) : n_(n) {
    int64_t rest = n;
    for (const int64_t radix : small_factors(n)) {
      Pass pass{radix, rest, {}, {}};
      for (int64_t p = 0; p < rest / radix; ++p)
        for (int64_t j = 1; j < radix; ++j) pass.twiddles.emplace_back(root_of_unity(p * j, rest));
      if (radix > 5 && radix != 8)
        for (int64_t k = 0; k < radix; ++k) pass.roots.emplace_back(root_of_unity(k, radix));
      passes_.push_back(std::move(pass));
      rest /= radix;
    }
    const auto joined = [&](const Pass& pass) {
      return passes_.size() > 1 && joins_ends(pass.radix) && n / pass.radix >= kSquare<T>;
    };
    first_joined_ = !passes_.empty() && joined(passes_.front());
    last_joined_ = !passes_.empty() && joined(passes_.back());
  }

  int64_t size() const { return n_; }
  /// Values of a buffer.
  int64_t buffer() const { return n_ * kStep; }

  /// Calls f(i, how many) for elements [0, n), a square at a time; the last one may go over some of
  /// the one before again.
  template <class F>
  [[gnu::always_inline]] static void in_squares(int64_t n, F&& f) {
    constexpr int64_t kMany = kSquare<T>;
    const std::integral_constant<int64_t, kMany> square;
    int64_t i = 0;
    for (; i + kMany <= n; i += kMany) f(i, square);
    if (n < kMany)
      for (; i < n; ++i) f(i, std::integral_constant<int64_t, 1>());
    else if (i < n)
      f(n - kMany, square);
  }
  /// `count` elements from i on, in lanes.
  template <int64_t count, class Source>
  [[gnu::always_inline]] static void bring(const Source& source, int64_t i, T* to) {
    if constexpr (count == 1 || Source::kSingle) {
      for (int64_t k = 0; k < count; ++k) source.one(i + k).store(to + k * kStep);
    } else {
      source.square(i, to);
    }
  }
  template <int64_t count, class Sink>
  [[gnu::always_inline]] static void take(const Sink& sink, int64_t i, const T* from) {
    if constexpr (count == 1 || Sink::kSingle) {
      for (int64_t k = 0; k < count; ++k) sink.put(i + k, LanePair<T>::load(from + k * kStep));
    } else {
      sink.put_square(i, from);
    }
  }
  /// n elements as they are.
  template <class Source, class Sink>
  static void move(int64_t n, const Source& source, const Sink& sink) {
    in_squares(n, [&]<class Count>(int64_t i, Count) {
      alignas(simd::kBytes) T x[Count::value * kStep];
      bring<Count::value>(source, i, x);
      take<Count::value>(sink, i, x);
    });
  }
  /// From a source to a sink (cpu_squares.h), by way of two buffers.
  template <class Source, class Sink>
  void run(const Source& source, const Sink& sink, T* x, T* other) const {
    const bool brought = Source::kJoins && first_joined_;
    const bool taken = Sink::kJoins && last_joined_;
    if constexpr (Source::kJoins)
      if (brought) first(passes_.front(), source, x);
    if (!brought) move(n_, source, Side<T>{x});
    int64_t stride = brought ? passes_.front().radix : 1;
    const size_t end = passes_.size() - (taken ? 1 : 0);
    for (size_t next = brought ? 1 : 0; next < end; ++next) {
      middle(passes_[next], stride, x, other);
      std::swap(x, other);
      stride *= passes_[next].radix;
    }
    if constexpr (Sink::kJoins)
      if (taken) last(passes_[end], stride, x, sink);
    if (!taken) move(n_, Side<T>{x}, sink);
  }

 private:
  using Pair = LanePair<T>;
  struct Pass {
    int64_t radix;
    int64_t length;                    ///< of what is left to transform
    std::vector<Complex<T>> twiddles;  ///< radix - 1 for each place
    std::vector<Complex<T>> roots;     ///< of unity, of a radix without a butterfly of its own
  };

  template <class Source>
  static void first(const Pass& pass, const Source& source, T* y) {
    switch (pass.radix) {
      case 4:
        return first<4>(pass, source, y);
      case 5:
        return first<5>(pass, source, y);
      default:
        return first<8>(pass, source, y);
    }
  }
  template <int radix, class Source>
  static void first(const Pass& pass, const Source& source, T* y) {
    const int64_t places = pass.length / radix;
    const Complex<T>* w = pass.twiddles.data();
    const auto turn = [&](int64_t p, Pair(&v)[radix]) __attribute__((always_inline)) {
      butterfly(pass.roots, v);
      T* to = y + p * radix * kStep;
      v[0].store(to);
#pragma GCC unroll 16
      for (int j = 1; j < radix; ++j) (v[j] * w[p * (radix - 1) + j - 1]).store(to + j * kStep);
    };
    if constexpr (Source::kSingle) {
      for (int64_t p = 0; p < places; ++p) {
        Pair v[radix];
#pragma GCC unroll 16
        for (int k = 0; k < radix; ++k) v[k] = source.one(p + places * k);
        turn(p, v);
      }
    } else {
      in_squares(places, [&]<class Count>(int64_t p, Count) __attribute__((always_inline)) {
        constexpr int64_t kCount = Count::value;
        alignas(simd::kBytes) T x[radix * kCount * kStep];
#pragma GCC unroll 16
        for (int k = 0; k < radix; ++k)
          bring<kCount>(source, p + places * k, x + k * kCount * kStep);
        for (int64_t i = 0; i < kCount; ++i) {
          Pair v[radix];
#pragma GCC unroll 16
          for (int k = 0; k < radix; ++k) v[k] = Pair::load(x + (k * kCount + i) * kStep);
          turn(p + i, v);
        }
      });
    }
  }

  template <class Sink>
  static void last(const Pass& pass, int64_t stride, const T* x, const Sink& sink) {
    switch (pass.radix) {
      case 4:
        return last<4>(pass, stride, x, sink);
      case 5:
        return last<5>(pass, stride, x, sink);
      default:
        return last<8>(pass, stride, x, sink);
    }
  }
  template <int radix, class Sink>
  static void last(const Pass& pass, int64_t stride, const T* x, const Sink& sink) {
    const auto turned = [&](int64_t q, Pair(&v)[radix]) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int k = 0; k < radix; ++k) v[k] = Pair::load(x + (q + stride * k) * kStep);
      butterfly(pass.roots, v);
    };
    if constexpr (Sink::kSingle) {
      for (int64_t q = 0; q < stride; ++q) {
        Pair v[radix];
        turned(q, v);
#pragma GCC unroll 16
        for (int k = 0; k < radix; ++k) sink.put(q + stride * k, v[k]);
      }
    } else {
      in_squares(stride, [&]<class Count>(int64_t q, Count) __attribute__((always_inline)) {
        constexpr int64_t kCount = Count::value;
        alignas(simd::kBytes) T y[radix * kCount * kStep];
        for (int64_t i = 0; i < kCount; ++i) {
          Pair v[radix];
          turned(q + i, v);
#pragma GCC unroll 16
          for (int k = 0; k < radix; ++k) v[k].store(y + (k * kCount + i) * kStep);
        }
#pragma GCC unroll 16
        for (int k = 0; k < radix; ++k) take<kCount>(sink, q + stride * k, y + k * kCount * kStep);
      });
    }
  }

  static void middle(const Pass& pass, int64_t stride, const T* x, T* y) {
    switch (pass.radix) {
      case 2:
        return middle<2>(pass, stride, x, y);
      case 3:
        return middle<3>(pass, stride, x, y);
      case 4:
        return middle<4>(pass, stride, x, y);
      case 5:
        return middle<5>(pass, stride, x, y);
      case 7:
        return middle<7>(pass, stride, x, y);
      case 8:
        return middle<8>(pass, stride, x, y);
      case 11:
        return middle<11>(pass, stride, x, y);
      default:
        return middle<13>(pass, stride, x, y);
    }
  }
  /// y[q + s (r p + j)] = w(p j) * sum over k of x[q + s (p + m k)] w_r(j k).
  template <int radix>
  static void middle(const Pass& pass, int64_t stride, const T* x, T* y) {
    const int64_t places = pass.length / radix;
    const Complex<T>* w = pass.twiddles.data();
    for (int64_t p = 0; p < places; ++p, w += radix - 1) {
      for (int64_t q = 0; q < stride; ++q) {
        Pair v[radix];
#pragma GCC unroll 16
        for (int k = 0; k < radix; ++k)
          v[k] = Pair::load(x + (q + stride * (p + places * k)) * kStep);
        butterfly(pass.roots, v);
        T* to = y + (q + stride * radix * p) * kStep;
        v[0].store(to);
        if (p == 0) {
#pragma GCC unroll 16
          for (int j = 1; j < radix; ++j) v[j].store(to + stride * j * kStep);
        } else {
#pragma GCC unroll 16
          for (int j = 1; j < radix; ++j) (v[j] * w[j - 1]).store(to + stride * j * kStep);
        }
      }
    }
  }

  int64_t n_ = 1;
  std::vector<Pass> passes_;
  bool first_joined_ = false;  ///< the first pass brings the elements
  bool last_joined_ = false;   ///< the last one takes them away
};

}  // namespace mica::fft

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "mica/ops/max_pool2d/cpu_vector.h"
#include "mica/ops/pool/geometry.h"

// 2x2 windows that cover a row-major plane two by two, as most networks pool. A vector holds
// results of two rows, so that rows of half a vector fill it too; a last group or pair of rows that
// is not full is moved back to overlap the one before.
namespace mica::max_pool::pool_2x2 {

/// Elements of type T of one of the two rows.
template <class T>
inline constexpr int kHalf = 16 / sizeof(T);

template <class T>
bool takes(const Pool2dGeometry& g) {
  return !g.adaptive && g.kernel == Size2(2) && g.stride == Size2(2) && g.padding == Size2(0) &&
         g.dilation == Size2(1) && 2 * g.oh <= g.h && 2 * g.ow <= g.w && g.ow >= kHalf<T>;
}

template <class T>
struct Lanes {
  static constexpr int kHalf = pool_2x2::kHalf<T>;
  using Half = typename VectorOf<T, kHalf>::Values;
  using V = typename VectorOf<T, 2 * kHalf>::Values;
  using I = typename VectorOf<T, 2 * kHalf>::Indices;
  using HalfPositions = typename VectorOf<int32_t, kHalf>::Values;
  using Positions = typename VectorOf<int32_t, 2 * kHalf>::Values;

  static V load_values(const T* low, const T* high) {
    return joined<V>(load<Half>(low), load<Half>(high));
  }
  static I load_positions(const int32_t* low, const int32_t* high) {
    const auto both = joined<Positions>(load<HalfPositions>(low), load<HalfPositions>(high));
    return __builtin_convertvector(both, I);
  }
  static void store_values(V v, T* low, T* high) { store_halves<Half>(v, low, high); }
  static void store_positions(I v, int32_t* low, int32_t* high) {
    store_halves<HalfPositions>(__builtin_convertvector(v, Positions), low, high);
  }

  /// The left or the right columns of windows, from their elements: the first kHalf of either row
  /// and the second.
  template <int Column>
  static V columns(V first, V second) {
    return with_lanes([&]<int... l>(std::integer_sequence<int, l...>) -> V {
      return __builtin_shufflevector(first, second, (element(l) + Column)...);
    });
  }
  static constexpr int element(int lane) {
    const int in_half = lane % kHalf * 2;
    return lane / kHalf * kHalf + (in_half < kHalf ? in_half : in_half + kHalf);
  }
  /// The opposite: the first kHalf elements of either row, or with Part = 1 the second.
  template <int Part>
  static V elements(V left, V right) {
    return with_lanes([&]<int... l>(std::integer_sequence<int, l...>) -> V {
      return __builtin_shufflevector(
          left, right,
          (l / kHalf * kHalf + Part * kHalf / 2 + l % kHalf / 2 + l % 2 * 2 * kHalf)...);
    });
  }

 private:
  template <class F>
  static auto with_lanes(F&& f) {
    return f(std::make_integer_sequence<int, 2 * kHalf>());
  }
  template <class Whole, class Part>
  static Whole joined(Part low, Part high) {
    return with_lanes([&]<int... l>(std::integer_sequence<int, l...>) -> Whole {
      return __builtin_shufflevector(low, high, l...);
    });
  }
  template <class Part, class Whole, class S>
  static void store_halves(Whole v, S* low, S* high) {
    [&]<int... l>(std::integer_sequence<int, l...>) {
      const Part first = __builtin_shufflevector(v, v, l...);
      const Part second = __builtin_shufflevector(v, v, (l + kHalf)...);
      std::memcpy(low, &first, sizeof first);
      std::memcpy(high, &second, sizeof second);
    }(std::make_integer_sequence<int, kHalf>());
  }
};

/// The pairs of result rows of each plane and the groups of columns in them: calls f(first result
/// of the upper row, first element of its window, the element's position).
template <class T, class F>
[[gnu::always_inline]] inline void for_groups(const Pool2dGeometry& g, int64_t planes, F&& f) {
  const int64_t rows = g.oh;
  const int64_t columns = g.ow;
  const int64_t h = g.h;
  const int64_t w = g.w;
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t row = 0; row < rows; row += 2) {
      const int64_t oh = rows > 1 ? std::min(row, rows - 2) : 0;
      const int64_t first = (plane * rows + oh) * columns;
      for (int64_t column = 0; column < columns; column += kHalf<T>) {
        const int64_t ow = std::min(column, columns - kHalf<T>);
        const int64_t position = 2 * (oh * w + ow);
        f(first + ow, plane * h * w + position, static_cast<Index<T>>(position));
      }
    }
}

/// From the upper to the lower row of a pair: of results, and of elements. A plane of one row of
/// results takes it twice.
struct Below {
  int64_t results = 0, elements = 0;
  explicit Below(const Pool2dGeometry& g)
      : results(g.oh > 1 ? g.ow : 0), elements(g.oh > 1 ? 2 * g.w : 0) {}
};

/// The positions of windows relative to the first of a group.
template <class T>
auto window_positions(const Below& below) {
  typename Lanes<T>::I positions;
  for (int l = 0; l < 2 * kHalf<T>; ++l)
    positions[l] = static_cast<Index<T>>(l % kHalf<T> * 2 + (l < kHalf<T> ? 0 : below.elements));
  return positions;
}

/// y and positions (planes, oh, ow) from x (planes, h, w).
template <class T>
void pool(const Pool2dGeometry& g, int64_t planes, const T* x, T* y, int32_t* positions) {
  using L = Lanes<T>;
  using V = typename L::V;
  using I = typename L::I;
  constexpr int kHalf = L::kHalf;
  const Below below(g);
  const auto w = g.w;
  const I right = window_positions<T>(below) + 1;
  const I lower_right = right + static_cast<Index<T>>(w);
  for_groups<T>(g, planes, [=](int64_t result, int64_t at, Index<T> origin) {
    // The larger of each row of the windows, then of the two.
    const auto row = [&](const T* from, I last) {
      const T* next = from + below.elements;
      const V first = L::load_values(from, next);
      const V second = L::load_values(from + kHalf, next + kHalf);
      const V a = L::template columns<0>(first, second);
      const V b = L::template columns<1>(first, second);
      const I kept = keeps(a, b);
      return Largest<T, 2 * kHalf>{.value = kept ? a : b, .position = last + kept};
    };
    const auto upper = row(x + at, right);
    const auto lower = row(x + at + w, lower_right);
    const I kept = keeps(upper.value, lower.value);
    L::store_values(kept ? upper.value : lower.value, y + result, y + result + below.results);
    L::store_positions((kept ? upper.position : lower.position) + origin, positions + result,
                       positions + result + below.results);
  });
}

/// dx (planes, h, w) from dy and positions (planes, oh, ow). False where a position is none of its
/// window's: then dx is not to be used.
template <class T>
bool spread(const Pool2dGeometry& g, int64_t planes, const T* dy, const int32_t* positions, T* dx) {
  using L = Lanes<T>;
  using V = typename L::V;
  using I = typename L::I;
  constexpr int kHalf = L::kHalf;
  const Below below(g);
  const auto w = g.w;
  const I left = window_positions<T>(below);
  const I lower_left = left + static_cast<Index<T>>(w);
  I found = left == left;
  for_groups<T>(g, planes, [=, &found](int64_t result, int64_t at, Index<T> origin) {
    const V from = L::load_values(dy + result, dy + result + below.results);
    const I position = L::load_positions(positions + result, positions + result + below.results);
    const auto row = [&](T* to, I start) {
      T* next = to + below.elements;
      const I is_left = position == start;
      const I is_right = position == start + 1;
      const V a = is_left ? from : V{};
      const V b = is_right ? from : V{};
      L::store_values(L::template elements<0>(a, b), to, next);
      L::store_values(L::template elements<1>(a, b), to + kHalf, next + kHalf);
      return is_left | is_right;
    };
    const I upper = row(dx + at, left + origin);
    found &= upper | row(dx + at + w, lower_left + origin);
  });
  const bool covered = 2 * g.ow == w && 2 * g.oh == g.h;
  for (int64_t plane = 0; plane < planes && !covered; ++plane) {
    T* to = dx + plane * g.h * w;
    for (int64_t h = 0; h < 2 * g.oh; ++h) std::fill(to + h * w + 2 * g.ow, to + (h + 1) * w, T(0));
    std::fill(to + 2 * g.oh * w, to + g.h * w, T(0));
  }
  bool all = true;
  for (int l = 0; l < 2 * kHalf; ++l) all = all && found[l] != 0;
  return all;
}

}  // namespace mica::max_pool::pool_2x2

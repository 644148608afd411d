#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace mica::max_pool {

/// As wide as T.
template <class T>
using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

template <class T, int Lanes>
struct VectorOf {
  typedef T Values __attribute__((vector_size(Lanes * sizeof(T))));
  typedef Index<T> Indices __attribute__((vector_size(Lanes * sizeof(T))));
};

/// Lane by lane: not `replaces`.
template <class V>
auto keeps(V largest, V value) {
  return (value <= largest) | (largest != largest);
}

/// The largest value so far in every lane and its position.
template <class T, int Lanes>
struct Largest {
  using V = typename VectorOf<T, Lanes>::Values;
  using I = typename VectorOf<T, Lanes>::Indices;
  V value = V{} - std::numeric_limits<T>::infinity();
  I position;

  void take(V v, I at) {
    const I kept = keeps(value, v);
    value = kept ? value : v;
    position = kept ? position : at;
  }
  void store(T* y, int32_t* positions) const {
    std::memcpy(y, &value, sizeof value);
    for (int l = 0; l < Lanes; ++l) positions[l] = static_cast<int32_t>(position[l]);
  }
};

template <class V, class T>
V load(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace mica::max_pool

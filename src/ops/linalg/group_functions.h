#pragma once

#include "mica/ops/linalg/group_jacobi.h"

// Functions of one matrix that are made of several factors, by a group of threads: in T, which is
// double or complex numbers of them, of elements of type In.
namespace mica::linalg::group {

template <class G, class In>
MICA_OF_GROUP void fill_with_nan(const G& g, int64_t count, In* to) {
  const Part<In> nan = static_cast<Part<In>>(::nan(""));
  for (int64_t e = g.rank(); e < count; e += g.size()) to[e] = In(nan);
}

/// How many elements of T cofactor works in beside the memory of the rotations.
MICA_PORTABLE constexpr int64_t cofactor_elements(int64_t n) { return 2 * n * n + n; }

/// How the determinant of a (n, n) changes with each element, singular or not: U diag(products of
/// the other singular values) Vᴴ times the conjugate of det(U Vᴴ).
template <class G, class T, class In>
MICA_OF_GROUP void cofactor(const G& g, int n, const In* given, In* result,
                            const JacobiMemory<T>& memory, T* elements, int32_t* pivots) {
  using R = Part<T>;
  T* const a = elements;
  T* const turn = a + n * n;
  T* const others = turn + n * n;
  for (int e = g.rank(); e < n * n; e += g.size()) a[e] = static_cast<T>(given[e]);
  g.sync();
  R scale = 1;
  if (decompose(g, n, n, a, false, memory, scale) == kNotFinite)
    return fill_with_nan(g, static_cast<int64_t>(n) * n, result);
  for (int k = g.rank(); k < n; k += g.size()) {
    R product = 1;
    for (int j = 0; j < n; ++j) product *= j == k ? R(1) : memory.values[memory.order[j]] / scale;
    others[k] = T(product);
  }
  g.sync();
  for (int e = g.rank(); e < n * n; e += g.size()) {
    const int i = e / n;
    const int j = e - i * n;
    T turned = T(0);
    T sum = T(0);
    for (int k = 0; k < n; ++k) {
      const int from = memory.order[k];
      const T both = memory.w[from][i] * conjugate(memory.v[from][j]);
      turned = turned + both;
      sum = sum + both * others[k];
    }
    turn[e] = turned;
    a[e] = sum;
  }
  g.sync();
  lu(g, n, n, n, turn, n, pivots);
  g.sync();
  T sign = T(1);
  for (int i = 0; i < n; ++i) sign = sign * turn[i * (n + 1)] * R(pivots[i] == i + 1 ? 1 : -1);
  for (int e = g.rank(); e < n * n; e += g.size())
    result[e] = static_cast<In>(a[e] * conjugate(sign));
}

/// How many elements of T exponential works in.
MICA_PORTABLE constexpr int64_t exponential_elements(int64_t n) { return 9 * n * n; }

/// exp of a matrix (n, n): Padé's approximation of degree 13 of the matrix that was halved until
/// it is small, squared as often.
template <class G, class T, class In>
MICA_OF_GROUP void exponential(const G& g, int n, const In* given, In* result, T* elements,
                               int32_t* pivots) {
  using R = Part<T>;
  constexpr R kSmall = 5.371920351148152;
  constexpr R kPade[] = {64764752532480000,
                         32382376266240000,
                         7771770303897600,
                         1187353796428800,
                         129060195264000,
                         10559470521600,
                         670442572800,
                         33522128640,
                         1323241920,
                         40840800,
                         960960,
                         16380,
                         182,
                         1};
  const int size = n * n;
  R norm = 0;
  bool other = false;
  for (int j = g.rank(); j < n; j += g.size()) {
    R sum = 0;
    for (int i = 0; i < n; ++i) sum += root_of(square_of(static_cast<T>(given[i * n + j])));
    norm = sum > norm ? sum : norm;
    other = other || !(sum * 0 == 0);
  }
  if (g.any(other)) return fill_with_nan(g, size, result);
  norm = g.largest(norm);
  const int halvings = norm > kSmall ? static_cast<int>(::ceil(::log2(norm / kSmall))) : 0;
  const R scale = static_cast<R>(::ldexp(1.0, -halvings));
  T* const a = elements;
  T* const a2 = a + size;
  T* const a4 = a2 + size;
  T* const a6 = a4 + size;
  T* const sum = a6 + size;
  T* const u = sum + size;
  T* const v = u + size;
  T* const both = v + size;  // (n, 2 n)
  const auto multiply = [&](const T* x, const T* y, T* to) {
    add_product<Second::plain>(g, n, n, n, x, n, y, n, to, n, 0);
    g.sync();
  };
  // Of odd (first = 1) or even powers: A⁶ (b A⁶ + b A⁴ + b A²) + b A⁶ + b A⁴ + b A² + b.
  const auto powers = [&](int first, T* to) {
    for (int e = g.rank(); e < size; e += g.size())
      sum[e] = a6[e] * kPade[12 + first] + a4[e] * kPade[10 + first] + a2[e] * kPade[8 + first];
    g.sync();
    multiply(a6, sum, to);
    for (int e = g.rank(); e < size; e += g.size())
      to[e] = to[e] + a6[e] * kPade[6 + first] + a4[e] * kPade[4 + first] +
              a2[e] * kPade[2 + first] + (e / n == e % n ? T(kPade[first]) : T(0));
    g.sync();
  };
  for (int e = g.rank(); e < size; e += g.size()) a[e] = static_cast<T>(given[e]) * scale;
  g.sync();
  multiply(a, a, a2);
  multiply(a2, a2, a4);
  multiply(a4, a2, a6);
  powers(1, v);
  multiply(a, v, u);
  powers(0, v);
  for (int e = g.rank(); e < size; e += g.size()) {
    const int at = e / n * 2 * n + e % n;
    both[at] = v[e] - u[e];
    both[at + n] = v[e] + u[e];
  }
  g.sync();
  lu(g, n, 2 * n, n, both, 2 * n, pivots);
  g.sync();
  solve_triangular(g, {.upper = true}, both, 2 * n, both + n, n, n, 2 * n);
  T* power = u;
  T* next = v;
  for (int e = g.rank(); e < size; e += g.size()) power[e] = both[e / n * 2 * n + n + e % n];
  g.sync();
  for (int k = 0; k < halvings; ++k) {
    multiply(power, power, next);
    T* const last = power;
    power = next;
    next = last;
  }
  for (int e = g.rank(); e < size; e += g.size()) result[e] = static_cast<In>(power[e]);
}

}  // namespace mica::linalg::group

#pragma once

// One-sided Jacobi rotations of matrices of up to 32 rows and columns: each of N lanes holds a
// vector and what it was turned by in its registers, and in round r meets lane ^ r.
#include "mica/ops/linalg/cuda_group.cuh"
#include "mica/ops/linalg/group_jacobi.h"

namespace mica::linalg::group {

template <class T, int N>
struct JacobiLanes {
  T a[N];  ///< the lane's vector, zeros after its end
  T v[N];
  T value;    ///< its length in the end
  int place;  ///< of that in the order of all; N of lanes without a vector

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % N; }
  /// Of a value of all N lanes.
  template <class F>
  static __device__ T combine(T x, F two) {
#pragma unroll
    for (int offset = N / 2; offset > 0; offset /= 2)
      x = two(x, __shfl_xor_sync(0xffffffffU, x, offset));
    return x;
  }
  /// Which of the N lanes say so.
  static __device__ unsigned ballot(bool x) {
    const unsigned all = __ballot_sync(0xffffffffU, x);
    const unsigned first = threadIdx.x % 32 / N * N;
    return N == 32 ? all : all >> first & ((1U << N % 32) - 1);
  }

  /// Until all of `a` are orthogonal; rows of v past `count` stay zero. False where they do not
  /// become it. Vectors whose squares are at most `least` stand still.
  __device__ bool orthogonalize(int length, T least, bool turns) {
    constexpr int kMostSweeps = 40;
    const T tolerance = kEpsilon<T> * root_of(static_cast<T>(length));
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = i == lane() ? T(1) : T(0);
    bool turned = true;
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      turned = false;
#pragma unroll 1
      for (int round = 1; round < N; ++round) {
        T b[N];
        T aa = 0;
        T ab = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) {
          b[i] = __shfl_xor_sync(0xffffffffU, a[i], round);
          aa += a[i] * a[i];
          ab += a[i] * b[i];
        }
        const T bb = __shfl_xor_sync(0xffffffffU, aa, round);
        const bool first = lane() < (lane() ^ round);
        const bool small =
            aa <= least || bb <= least || absolute(ab) <= tolerance * root_of(aa) * root_of(bb);
        if (!__any_sync(0xffffffffU, !small)) continue;
        turned = turned || !small;
        T c = 1;
        T s = 0;
        if (!small) {
          const auto rotation = Rotation<T>::of(first ? aa : bb, first ? bb : aa, absolute(ab));
          c = rotation.c;
          // p becomes c p - s q, q becomes s p + c q; the product's sign turns q around, and back.
          s = (first ? -rotation.s : rotation.s) * (ab < 0 ? T(-1) : T(1));
        }
#pragma unroll
        for (int i = 0; i < N; ++i) a[i] = c * a[i] + s * b[i];
        if (turns) {
#pragma unroll
          for (int i = 0; i < N; ++i) {
            const T other = __shfl_xor_sync(0xffffffffU, v[i], round);
            v[i] = c * v[i] + s * other;
          }
        }
      }
      if (!__any_sync(0xffffffffU, turned)) break;
    }
    return ballot(turned) == 0;
  }

  /// `descending` or ascending, of the first `count` lanes.
  __device__ void sort(int count, bool descending) {
    T sum = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += a[i] * a[i];
    value = root_of(sum);
    place = 0;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const T other = __shfl_sync(0xffffffffU, value, j, N);
      const bool before = descending ? other > value : other < value;
      if (j < count && (before || (other == value && j < lane()))) ++place;
    }
    if (lane() >= count) place = N;
  }

  /// Vectors of length 1 in a; those of places from `known` to `count` - 1 are made up.
  __device__ void normalize(int known, int count, int length) {
    const T inverse = place < known ? 1 / value : T(0);
#pragma unroll
    for (int i = 0; i < N; ++i) a[i] *= inverse;
    // Matrices of a warp may want different numbers of them.
    for (int r = 0; r < N; ++r) {
      const bool wanted = r >= known && r < count;
      if (!__any_sync(0xffffffffU, wanted)) continue;
      const bool there = place < r;
      // The unit vector that is farthest from what is there.
      T most = -1;
      int best = 0;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const T rest = 1 - combine(there ? a[i] * a[i] : T(0), AddTwo());
        const bool farther = i < length && rest > most;
        most = farther ? rest : most;
        best = farther ? i : best;
      }
      T own[N];
#pragma unroll
      for (int i = 0; i < N; ++i) own[i] = i == best ? T(1) : T(0);
      for (int pass = 0; pass < 2; ++pass) {
        T along = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) along += a[i] * own[i];
#pragma unroll
        for (int i = 0; i < N; ++i) own[i] -= combine(there ? along * a[i] : T(0), AddTwo());
      }
      T square = 0;
#pragma unroll
      for (int i = 0; i < N; ++i) square += own[i] * own[i];
      const T scale = 1 / root_of(square);
      if (wanted && place == r) {
#pragma unroll
        for (int i = 0; i < N; ++i) a[i] = own[i] * scale;
      }
    }
  }
};

/// What such a call reads and writes: a batch of (m, n), and u, s and vh of its singular values
/// (null u: the values alone), or eigenvalues s and vectors u of Hermitian matrices.
template <class T>
struct JacobiCall {
  const T* a;
  int m, n;
  int64_t count;
  T* u;
  T* s;
  T* vh;
  bool hermitian;
};

/// ended(number of the matrix, how it ended).
template <class T, int N, class F>
__device__ void jacobi_of_lanes(const JacobiCall<T>& call, F ended) {
  using L = JacobiLanes<T, N>;
  const int64_t groups = static_cast<int64_t>(gridDim.x) * (blockDim.x / N);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (blockDim.x / N) + threadIdx.x / N;
  const int lane = L::lane();
  const int m = call.m;
  const int n = call.n;
  const bool wide = m < n;
  const int length = wide ? n : m;
  const int count = wide ? m : n;
  const bool vectors = call.u != nullptr;
  // All lanes of a warp stay together: those past the batch compute its last matrix again.
  constexpr int64_t kTogether = 32 / N;
  for (int64_t b = first; b - b % kTogether < call.count; b += groups) {
    const bool real = b < call.count;
    const int64_t at = real ? b : call.count - 1;
    const T* const from = call.a + at * m * n;
    L l;
    T largest = 0;
    bool other = false;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      l.a[i] = 0;
      if (i >= length || lane >= count) continue;
      if (call.hermitian) {
        l.a[i] = i >= lane ? from[i * n + lane] : from[lane * n + i];
      } else {
        l.a[i] = wide ? from[lane * n + i] : from[i * n + lane];
      }
      const T size = absolute(l.a[i]);
      largest = size > largest ? size : largest;
      other = other || !(size * 0 == 0);
      if (call.hermitian) other = other || !(from[i * n + lane] * 0 == 0);
    }
    const bool finite = L::ballot(other) == 0;
    largest = L::combine(largest, LargerOfTwo());
    int exponent = 0;
    if (finite && largest > 0) {
      constexpr int kMost = sizeof(T) == 4 ? 120 : 1000;
      frexp(largest, &exponent);
      exponent = exponent < -kMost ? -kMost : exponent > kMost ? kMost : exponent;
    }
    const T scale = static_cast<T>(ldexp(1.0, -exponent));
    T sum = 0;
    T sizes = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      l.a[i] = finite ? l.a[i] * scale : T(0);  // so that it comes to an end
      sum += l.a[i] * l.a[i];
      sizes += absolute(l.a[i]);
    }
    T shift = 0;
    T least = L::combine(sum, AddTwo()) * kEpsilon<T> * kEpsilon<T>;
    if (call.hermitian) {
      shift = 2 * L::combine(sizes, LargerOfTwo());
      least = 0;
#pragma unroll
      for (int i = 0; i < N; ++i) l.a[i] += i == lane && lane < count ? shift : T(0);
    }
    const bool done = l.orthogonalize(length, least, vectors);
    l.sort(count, !call.hermitian);
    if (real && lane == 0) ended(b, !finite ? kNotFinite : done ? kDone : kNotConverged);
    if (vectors && !call.hermitian) {
      const int known =
          __popc(L::ballot(lane < count && l.value > 0 && l.value * l.value > 4 * least));
      l.normalize(known, count, length);
    }
    if (!real || lane >= count) continue;
    call.s[b * count + l.place] = (l.value - shift) / scale;
    if (!vectors) continue;
    T* const u = call.u + b * m * count;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (call.hermitian) {
        if (i < n) u[i * n + l.place] = l.v[i];
        continue;
      }
      T* const vh = call.vh + b * count * n;
      if (i < m) u[i * count + l.place] = wide ? l.v[i] : l.a[i];
      if (i < n) vh[l.place * n + i] = wide ? l.a[i] : l.v[i];
    }
  }
}

}  // namespace mica::linalg::group

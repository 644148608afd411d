#pragma once

#include "mica/ops/reduce/cuda_source.cuh"
#include "mica/runtime/cuda/strided.cuh"

// How scans read and write a row of any strides, in either direction.
namespace mica::cuda {

/// Elements that a thread has side by side: 16 bytes of floats, 4 integers.
template <class S>
inline constexpr int kScanItems = S::kVector > 1 ? S::kVector : 4;
inline int items_of(DType t) {
  return is_floating(t) ? 16 / static_cast<int>(size_of(t)) : kScanItems<Integers>;
}

/// The axes that are not scanned (operands: out, first input, last input) and the one that is.
struct Scan {
  StridedLoop<3> rows;
  int64_t step[3] = {};  ///< along the axis
  int64_t n = 0;
  int64_t pieces = 1;
  int64_t length = 0;  ///< elements of a piece
  bool exclusive = false;
  bool reverse = false;
  bool vectors = false;  ///< a thread's elements lie side by side, whole vectors of them

  /// Where element number i of the scan lies along the axis.
  __device__ int64_t place(int64_t i) const { return reverse ? n - 1 - i : i; }
};

/// N elements side by side from a place where they are aligned.
template <class T, int N>
__device__ void load_items(const Typed<T>& source, const char* p, T (&x)[N]) {
  source.unpack(*reinterpret_cast<const uint4*>(p), [&](const auto& from) {
#pragma unroll
    for (int e = 0; e < N; ++e) x[e] = from[e];
  });
}
template <int N>
__device__ void load_items(const Halves& source, const char* p, float (&x)[N]) {
  source.unpack(*reinterpret_cast<const uint4*>(p), [&](const auto& from) {
#pragma unroll
    for (int e = 0; e < N; ++e) x[e] = from[e];
  });
}
template <class Four>
__device__ void extend_items(const Integers& source, const Four& four, int64_t (&x)[4]) {
  x[0] = source.extend(four.x), x[1] = source.extend(four.y);
  x[2] = source.extend(four.z), x[3] = source.extend(four.w);
}
__device__ inline void load_items(const Integers& source, const char* p, int64_t (&x)[4]) {
  if (source.size == 8) {
    const auto* two = reinterpret_cast<const longlong2*>(p);
    const longlong2 first = two[0], second = two[1];
    x[0] = first.x, x[1] = first.y, x[2] = second.x, x[3] = second.y;
  } else if (source.size == 4) {
    extend_items(source, *reinterpret_cast<const uint4*>(p), x);
  } else if (source.size == 2) {
    extend_items(source, *reinterpret_cast<const ushort4*>(p), x);
  } else {
    extend_items(source, *reinterpret_cast<const uchar4*>(p), x);
  }
}

template <class T, class C, int N>
__device__ void store_items(const Typed<T>&, char* p, const C (&y)[N]) {
  Vec<T, N> to;
#pragma unroll
  for (int e = 0; e < N; ++e) to.v[e] = static_cast<T>(y[e]);
  store_vec<N>(reinterpret_cast<T*>(p), to);
}
template <int N>
__device__ void store_items(const Halves& source, char* p, const float (&y)[N]) {
  uint16_t to[N];
#pragma unroll
  for (int e = 0; e < N; ++e) source.store(to, e, y[e]);
  uint4 raw;
  memcpy(&raw, to, sizeof raw);
  *reinterpret_cast<uint4*>(p) = raw;
}
__device__ inline void store_items(const Integers&, char* p, const int64_t (&y)[4]) {
  auto* two = reinterpret_cast<longlong2*>(p);
  two[0] = {y[0], y[1]};
  two[1] = {y[2], y[3]};
}

/// Results of integers have 64 bits.
template <class S>
__device__ int out_bytes(const S& source) {
  return source.bytes();
}
__device__ inline int out_bytes(const Integers&) { return sizeof(int64_t); }
template <class S, class C>
__device__ void store_one(const S& source, char* p, C y) {
  source.store(p, 0, static_cast<typename S::Value>(y));
}
__device__ inline void store_one(const Integers&, char* p, int64_t y) {
  *reinterpret_cast<int64_t*>(p) = y;
}

/// One row of each operand.
template <class Op>
struct ScanRow {
  using Value = typename Op::Source::Value;
  static constexpr int kM = Op::kInputs;
  static constexpr int kI = kScanItems<typename Op::Source>;
  const Scan& scan;
  const Op& op;
  const char* in[kM];
  char* out;

  __device__ ScanRow(const Scan& s, const Op& o, int64_t row, const char* a, const char* b, char* y)
      : scan(s), op(o) {
    int64_t at[3];
    s.rows.offsets(row, at);
    in[0] = a + at[1] * op.source.bytes();
    if constexpr (kM == 2) in[1] = b + at[2] * op.source.bytes();
    out = y + at[0] * out_bytes(op.source);
  }
  __device__ Value load_one(int m, int64_t i) const {
    return op.source.one(in[m] + scan.place(i) * scan.step[m + 1] * op.source.bytes());
  }
  template <class C>
  __device__ void put_one(int64_t i, C y) const {
    store_one(op.source, out + scan.place(i) * scan.step[0] * out_bytes(op.source), y);
  }

  /// Elements i, i + 1, … in the scan's order; neutral ones from `end` on.
  __device__ void load(int m, int64_t i, int64_t end, Value (&x)[kI]) const {
    if (scan.vectors && i + kI <= end) {
      const int64_t low = scan.reverse ? scan.place(i) - (kI - 1) : i;
      load_items(op.source, in[m] + low * op.source.bytes(), x);
      if (scan.reverse) reverse(x);
      return;
    }
#pragma unroll
    for (int e = 0; e < kI; ++e) x[e] = i + e < end ? load_one(m, i + e) : Value(Op::neutral(m));
  }
  template <class C>
  __device__ void put(int64_t i, int64_t end, C (&y)[kI]) const {
    if (scan.vectors && i + kI <= end) {
      if (scan.reverse) reverse(y);
      const int64_t low = scan.reverse ? scan.place(i) - (kI - 1) : i;
      store_items(op.source, out + low * out_bytes(op.source), y);
      return;
    }
#pragma unroll
    for (int e = 0; e < kI; ++e)
      if (i + e < end) put_one(i + e, y[e]);
  }

 private:
  template <class T>
  __device__ static void reverse(T (&x)[kI]) {
#pragma unroll
    for (int e = 0; e < kI / 2; ++e) {
      const T other = x[kI - 1 - e];
      x[kI - 1 - e] = x[e];
      x[e] = other;
    }
  }
};

/// Passes vectors of kI elements among the lanes of a warp, through memory that has room for all of
/// them. Neighbouring lanes load and store neighbouring vectors, but scan several in a row, so that
/// one scan over the lanes is enough for all.
template <class Value, int kI, int kK>
struct Exchange {
  static constexpr int kWords = kI * static_cast<int>(sizeof(Value)) / 16;
  static constexpr int kBytes = 32 * kK * kWords * 16;
  uint4* memory;

  /// Lane l gives its vectors l, l + 32, … and gets kK * l, kK * l + 1, …
  __device__ void gather(Value (&x)[kK][kI]) const {
    pass(
        x, [](int k, int lane) { return k * 32 + lane; },
        [](int k, int lane) { return lane * kK + k; });
  }
  /// And back.
  __device__ void scatter(Value (&x)[kK][kI]) const {
    pass(
        x, [](int k, int lane) { return lane * kK + k; },
        [](int k, int lane) { return k * 32 + lane; });
  }

 private:
  /// Eight lanes that access memory together find eight different columns of banks either way.
  __device__ static int swizzled(int word) { return word ^ ((word >> 3) & 7); }

  template <class F, class G>
  __device__ void pass(Value (&x)[kK][kI], F given, G taken) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    uint4 words[kK * kWords];
    memcpy(words, x, sizeof words);
    __syncwarp();  // the pass before may still be reading
#pragma unroll
    for (int i = 0; i < kK * kWords; ++i)
      memory[swizzled(given(i / kWords, lane) * kWords + i % kWords)] = words[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kK * kWords; ++i)
      words[i] = memory[swizzled(taken(i / kWords, lane) * kWords + i % kWords)];
    memcpy(x, words, sizeof words);
  }
};

}  // namespace mica::cuda

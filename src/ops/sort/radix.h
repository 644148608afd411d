#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "mica/runtime/cpu/parallel.h"

namespace mica {

/// A key of up to 32 bits with the position it came from, in one word: words are all different, so
/// any sort of them is stable.
struct NarrowRecord {
  using Key = uint32_t;
  uint64_t word;

  static NarrowRecord of(Key key, uint32_t position) { return {uint64_t{key} << 32 | position}; }
  Key key() const { return static_cast<Key>(word >> 32); }
  uint32_t position() const { return static_cast<uint32_t>(word); }
  bool operator<(const NarrowRecord& o) const { return word < o.word; }
};

/// The same for keys of 64 bits.
struct WideRecord {
  using Key = uint64_t;
  Key bits;
  uint64_t where;

  static WideRecord of(Key key, uint32_t position) { return {key, position}; }
  Key key() const { return bits; }
  uint32_t position() const { return static_cast<uint32_t>(where); }
  bool operator<(const WideRecord& o) const {
    return bits < o.bits || (bits == o.bits && where < o.where);
  }
};

/// Sorts records by keys of `bits` bits, least significant digit first.
template <class Record>
class RadixSort {
 public:
  static constexpr int kDigitBits = 8;
  static constexpr int kDigits = 1 << kDigitBits;
  static constexpr int kMostChunks = 64;
  /// Fewer are sorted by comparison.
  static constexpr int64_t kFew = 128;
  using Counts = std::array<uint32_t, kDigits>;
  static constexpr size_t kCountBytes = sizeof(Counts) * kMostChunks;

  /// `counts` has room for as many as there are chunks, which are sorted in parallel.
  RadixSort(int bits, int chunks, Counts* counts) : bits_(bits), chunks_(chunks), counts_(counts) {}

  /// Sorts n records of `a` with the help of `b`, as large; returns the one they end in.
  Record* sort(Record* a, Record* b, int64_t n) const {
    if (n <= kFew) {
      std::sort(a, a + n);
      return a;
    }
    for (int shift = 0; shift < bits_; shift += kDigitBits) {
      each_chunk(n, [&](Counts& counts, int64_t begin, int64_t end) {
        counts.fill(0);
        for (int64_t i = begin; i < end; ++i) ++counts[digit(a[i], shift)];
      });
      if (!count_to_offset(n)) continue;
      each_chunk(n, [&](Counts& next, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) b[next[digit(a[i], shift)]++] = a[i];
      });
      std::swap(a, b);
    }
    return a;
  }

 private:
  static size_t digit(const Record& r, int shift) {
    return static_cast<size_t>(r.key() >> shift) & (kDigits - 1);
  }

  template <class F>
  void each_chunk(int64_t n, F&& f) const {
    parallel_for(chunks_, 1, [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; ++c) f(counts_[c], n * c / chunks_, n * (c + 1) / chunks_);
    });
  }

  /// Turns how often each digit occurs in a chunk into where its records go; false if all records
  /// have one digit.
  bool count_to_offset(int64_t n) const {
    uint32_t offset = 0;
    for (size_t d = 0; d < kDigits; ++d) {
      const uint32_t before = offset;
      for (int c = 0; c < chunks_; ++c) {
        const uint32_t count = counts_[c][d];
        counts_[c][d] = offset;
        offset += count;
      }
      if (offset - before == static_cast<uint64_t>(n)) return false;
    }
    return true;
  }

  int bits_;
  int chunks_;
  Counts* counts_;
};

}  // namespace mica

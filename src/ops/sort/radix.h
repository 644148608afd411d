#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

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
template <class Record, int bits>
class RadixSort {
 public:
  using Counts = std::array<uint32_t, 256>;  ///< of each value of a digit
  static constexpr int kDigits = bits / 8;

  /// The records are sorted in so many chunks at a time, with `counts_for` them counts.
  RadixSort(int chunks, Counts* counts) : chunks_(chunks), counts_(counts) {}
  static constexpr int counts_for(int chunks) { return std::max(chunks, kDigits); }

  /// Sorts n records of `a`, which are in the order of their positions, with the help of `b`, as
  /// large; returns the one they end in.
  Record* sort(Record* a, Record* b, int64_t n) const {
    constexpr int64_t kFew = 48;  // less work by comparison
    if (n <= kFew) {
      std::sort(a, a + n);
      return a;
    }
    if (chunks_ == 1) count_all_digits(a, n);
    for (int d = 0; d < kDigits; ++d) {
      Counts* counts = chunks_ == 1 ? counts_ + d : counts_;
      if (chunks_ > 1)
        each_chunk(n, [&](int64_t chunk, int64_t begin, int64_t end) {
          counts[chunk].fill(0);
          for (int64_t i = begin; i < end; ++i) ++counts[chunk][digit(a[i], d)];
        });
      if (!turn_to_offsets(counts, n)) continue;
      each_chunk(n, [&](int64_t chunk, int64_t begin, int64_t end) {
        Counts& next = counts[chunk];
        for (int64_t i = begin; i < end; ++i) b[next[digit(a[i], d)]++] = a[i];
      });
      std::swap(a, b);
    }
    return a;
  }

 private:
  static size_t digit(const Record& r, int d) {
    return static_cast<size_t>(r.key() >> (8 * d)) & 255;
  }

  template <class F>
  void each_chunk(int64_t n, F&& f) const {
    parallel_for(chunks_, 1, [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; ++c) f(c, n * c / chunks_, n * (c + 1) / chunks_);
    });
  }

  /// One chunk holds the same digits in any order: one look at it counts all of them.
  void count_all_digits(const Record* a, int64_t n) const {
    for (int d = 0; d < kDigits; ++d) counts_[d].fill(0);
    for (int64_t i = 0; i < n; ++i)
      for (int d = 0; d < kDigits; ++d) ++counts_[d][digit(a[i], d)];
  }

  /// Turns how often each value occurs in a chunk into where its records go; false if all records
  /// have the same.
  bool turn_to_offsets(Counts* counts, int64_t n) const {
    const int chunks = chunks_;  // which the counts do not change
    uint32_t offset = 0;
    for (size_t value = 0; value < 256; ++value) {
      const uint32_t before = offset;
      for (int c = 0; c < chunks; ++c) offset += std::exchange(counts[c][value], offset);
      if (offset - before == static_cast<uint64_t>(n)) return false;
    }
    return true;
  }

  int chunks_;
  Counts* counts_;
};

}  // namespace mica

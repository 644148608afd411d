#pragma once

#include "mica/op/kernel.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/fault.cuh"
#include "mica/runtime/cuda/types.cuh"

// What CUDA kernels over sparse matrices are written with.
namespace mica::cuda {

/// What is said of crow and col that are no pattern, with the numbers of the Fault in their places.
struct PatternTexts {
  const char *ends, *falls, *column;
};
#define MICA_PATTERN_TEXTS(op)                                                   \
  ::mica::cuda::PatternTexts{                                                    \
      op ": crow must go from 0 to the number of entries, {2}, got {0} and {1}", \
      op ": crow must not fall, got {0} after {1} at [{2}]",                     \
      op ": index {0} at [{1}] is out of range for {2} columns"}

/// The entries [begin, end).
struct EntryRange {
  int64_t begin, end;
  __device__ int64_t size() const { return end - begin; }
};

/// A pattern in device memory. Whatever its indices are, nothing that is read here lies outside of
/// it, and what is wrong is noted: a kernel asks for each row, and for the ends in one thread.
template <class I>
struct DevicePattern {
  const I* crow;
  const I* col;
  int64_t rows, columns, entries;
  PatternTexts texts;
  Fault* fault;

  DevicePattern(const PatternTexts& t, const Call& c, const Arg& crow_arg, int64_t entry_count)
      : crow(crow_arg.as<const I>()),
        col(nullptr),
        rows(crow_arg.numel() - 1),
        columns(0),
        entries(entry_count),
        texts(t),
        fault(c.encoder->fault()) {}
  DevicePattern(const PatternTexts& t, const Call& c, const Arg& crow_arg, const Arg& col_arg,
                int64_t column_count)
      : DevicePattern(t, c, crow_arg, col_arg.numel()) {
    col = col_arg.as<const I>();
    columns = column_count;
  }

  __device__ void check_ends() const {
    const auto first = static_cast<int64_t>(crow[0]);
    const auto last = static_cast<int64_t>(crow[rows]);
    if (first != 0 || last != entries) note_fault(fault, {first, last, entries, texts.ends});
  }
  /// Empty where crow is wrong; a row that goes past the entries is so because another falls, or
  /// the last does not end where it must.
  __device__ EntryRange row(int64_t r) const {
    const auto begin = static_cast<int64_t>(crow[r]);
    const auto end = static_cast<int64_t>(crow[r + 1]);
    if (begin > end) note_fault(fault, {end, begin, r + 1, texts.falls});
    return begin >= 0 && begin <= end && end <= entries ? EntryRange{begin, end} : EntryRange{0, 0};
  }
  /// -1 where it is out of range.
  __device__ int64_t column(int64_t entry) const {
    const auto c = static_cast<int64_t>(col[entry]);
    if (static_cast<uint64_t>(c) < static_cast<uint64_t>(columns)) return c;
    note_fault(fault, {c, entry, columns, texts.column});
    return -1;
  }
  /// The row that an entry is of, where there are rows.
  __device__ int64_t row_of(int64_t entry) const {
    int64_t low = 0;
    int64_t high = rows;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      if (static_cast<int64_t>(crow[middle]) <= entry) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
  /// What a kernel with a thread for each entry looks at besides: thread t at row t.
  __device__ void check_row(int64_t t) const {
    if (t == 0) check_ends();
    if (t < rows) (void)row(t);
  }
};

/// Sets *rise to whether the columns of each row rise (cuda_pattern.cu).
template <class I>
void find_order(const Call& c, const DevicePattern<I>& a, bool* rise);
extern template void find_order(const Call&, const DevicePattern<int32_t>&, bool*);
extern template void find_order(const Call&, const DevicePattern<int64_t>&, bool*);

/// Calls f with the type of indices, int32_t or int64_t.
template <class F>
void cuda_switch_index(DType t, F&& f) {
  if (t == DType::i32)
    f.template operator()<int32_t>();
  else
    f.template operator()<int64_t>();
}

/// Blocks for kernels that have one for each row, or for several in turn.
inline unsigned grid_of_rows(const Call& c, int64_t rows) {
  const int64_t most = int64_t{c.encoder->multiprocessors()} * 128;
  return static_cast<unsigned>(rows < 1 ? 1 : rows < most ? rows : most);
}

/// `supports` of kernels that read all their inputs row-major.
template <class P>
Support supports_row_major(const P&, const Specs& specs) {
  IndexSet all;
  for (int i = 0; i < static_cast<int>(specs.in.size()); ++i) all |= IndexSet({i});
  return Support::yes().with_contiguous(all);
}

}  // namespace mica::cuda

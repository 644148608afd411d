#include "mica/ops/sort/cpu.h"
#include "mica/ops/sort/keys.h"
#include "mica/ops/sort/radix.h"
#include "mica/ops/sort/rows.h"
#include "mica/ops/sort/sort.h"

namespace mica {
namespace {

constexpr int64_t kGrain = 16384;  // elements worth a thread of their own
// A row worth more than one thread: below, handing records between their caches costs more.
constexpr int64_t kLongRow = 1 << 22;

/// The elements of a row as records, and back. Flipped keys sort in descending order.
template <class T>
struct RecordsOf {
  using Key = SortKey<T>;
  using Bits = typename Key::Bits;
  using Record = std::conditional_t<sizeof(T) == 8, WideRecord, NarrowRecord>;
  using Sorter = RadixSort<Record, Key::kBits>;
  const T* x;
  int64_t step;
  Bits flip;

  RecordsOf(const Arg& in, int64_t offset, int64_t distance, bool descending)
      : x(in.as<T>() + offset),
        step(distance),
        flip(descending ? static_cast<Bits>(~Bits{0}) : Bits{0}) {
    if (info_of(in.dtype()).kind == DTypeKind::signed_integer)
      flip = static_cast<Bits>(flip ^ Key::kSign);
  }

  Bits key(int64_t i) const { return static_cast<Bits>(Key::of(x[i * step]) ^ flip); }
  Record operator[](int64_t i) const { return Record::of(key(i), static_cast<uint32_t>(i)); }
  /// The first position in [i, n) whose key is below `limit`, else n. Most blocks have none.
  int64_t find_below(Bits limit, int64_t i, int64_t n) const {
    constexpr int64_t kBlock = 32;
    for (; step == 1 && i + kBlock <= n; i += kBlock) {
      Bits found = 0;
      for (int64_t l = i; l < i + kBlock; ++l)
        found |= static_cast<Bits>(Key::of(x[l]) ^ flip) < limit ? 1 : 0;
      if (found != 0) break;
    }
    while (i < n && key(i) >= limit) ++i;
    return i;
  }
  T value(const Record& r) const {
    const auto k = static_cast<Bits>(static_cast<Bits>(r.key()) ^ flip);
    return Key::shared(k) ? x[r.position() * step] : Key::value(k);
  }
};

Support supports_length(int64_t n) {
  if (n > int64_t{UINT32_MAX}) return Support::no("a row has more than 2^32 - 1 elements");
  return Support::yes();
}

/// How many rows are worked on at a time, each with its part of the workspace, and in how many
/// chunks a row is sorted.
struct State : KernelState {
  static constexpr int64_t kMostChunks = 64;
  int64_t rows;
  int slots = 1;
  int chunks = 1;
  int64_t records;  ///< of a slot

  State(int64_t count, int64_t length, int64_t records_of_a_row, DType t)
      : rows(count), records(records_of_a_row) {
    const int64_t threads = std::min<int64_t>(omp_get_max_threads(), kMostChunks);
    if (count < threads && length >= kLongRow) {  // one after the other, each by all threads
      chunks = static_cast<int>(threads);
    } else {
      slots = static_cast<int>(
          std::clamp<int64_t>(count * length / kGrain, 1, std::clamp<int64_t>(count, 1, threads)));
    }
    workspace_bytes = switch_sorted(t, [&]<class T>() {
      using Sorter = typename RecordsOf<T>::Sorter;
      return static_cast<size_t>(slots) *
             (static_cast<size_t>(Sorter::counts_for(chunks)) * sizeof(typename Sorter::Counts) +
              static_cast<size_t>(records) * sizeof(typename RecordsOf<T>::Record));
    });
  }

  /// Calls f(row, records, sorter) for every row.
  template <class T, class F>
  void each_row(const Call& c, F&& f) const {
    using Sorter = typename RecordsOf<T>::Sorter;
    const int64_t of_a_slot = Sorter::counts_for(chunks);
    auto* counts = static_cast<typename Sorter::Counts*>(c.workspace);
    auto* data = reinterpret_cast<typename RecordsOf<T>::Record*>(counts + slots * of_a_slot);
    parallel_for(slots, 1, [&](int64_t first, int64_t last) {
      for (int64_t s = first; s < last; ++s) {
        const Sorter sorter(chunks, counts + s * of_a_slot);
        for (int64_t row = rows * s / slots; row < rows * (s + 1) / slots; ++row)
          f(row, data + s * records, sorter);
      }
    });
  }

  /// Calls f(begin, end) for the chunks of a row.
  template <class F>
  void each_chunk(int64_t n, F&& f) const {
    parallel_for(n, std::max<int64_t>(1, (n + chunks - 1) / chunks), f);
  }
};

struct RowsState : State {
  Rows layout;
  RowsState(const Rows& r, int64_t records_of_a_row, DType t)
      : State(r.count(), r.length, records_of_a_row, t), layout(r) {}
};

Support supports_sort(const SortParams& p, const Specs& s) {
  return supports_length(s.in[0].shape[static_cast<int>(p.axis)]);
}

std::shared_ptr<RowsState> prepare_sort(const SortParams& p, const Specs& s) {
  const Rows rows(s.in[0], s.out[0], static_cast<int>(p.axis));
  return std::make_shared<RowsState>(rows, 2 * rows.length, s.in[0].dtype);
}

void run_sort(const SortParams& p, const RowsState& state, const Call& c) {
  const Rows& rows = state.layout;
  const int64_t n = rows.length;
  switch_sorted(c.in[0].dtype(), [&]<class T>() {
    state.each_row<T>(c, [&](int64_t i, auto* records, const auto& sorter) {
      const Rows::Offsets at = rows.offsets(i);
      const RecordsOf<T> row(c.in[0], at.in, rows.in_step, p.descending);
      state.each_chunk(n, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) records[k] = row[k];
      });
      const auto* sorted = sorter.sort(records, records + n, n);
      T* values = c.out[0].as<T>() + at.out;
      auto* indices = c.out[1].as<int64_t>() + at.out;
      state.each_chunk(n, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          values[k * rows.out_step] = row.value(sorted[k]);
          indices[k * rows.out_step] = sorted[k].position();
        }
      });
    });
  });
}

constexpr int64_t kFewInserted = 32;  // each candidate moves some of the k best

/// Candidates among n that are kept before all but the k best of them are dropped.
int64_t most_candidates(int64_t n, int64_t k) {
  return std::min(n, std::max<int64_t>(4 * k, 1024));
}

Support supports_topk(const TopkParams& p, const Specs& s) {
  return supports_length(s.in[0].shape[static_cast<int>(p.axis)]);
}

std::shared_ptr<RowsState> prepare_topk(const TopkParams& p, const Specs& s) {
  const Rows rows(s.in[0], s.out[0], static_cast<int>(p.axis));
  return std::make_shared<RowsState>(rows, std::max(2 * p.k, most_candidates(rows.length, p.k)),
                                     s.in[0].dtype);
}

/// Leaves the k first of n records in no order at the front of `kept`; k is at least 1. Of equal
/// keys the one with the lower position stays.
template <class T, class Record>
void select_first(const RecordsOf<T>& row, int64_t n, int64_t k, Record* kept) {
  using Bits = typename RecordsOf<T>::Bits;
  const int64_t most = most_candidates(n, k);
  int64_t count = most;
  for (int64_t i = 0; i < count; ++i) kept[i] = row[i];
  Bits limit;
  const auto drop = [&] {
    std::nth_element(kept, kept + k - 1, kept + count);
    count = k;
    limit = static_cast<Bits>(kept[k - 1].key());
  };
  drop();
  for (int64_t i = row.find_below(limit, most, n); i < n; i = row.find_below(limit, i + 1, n)) {
    kept[count++] = row[i];
    if (count == most) drop();
  }
  if (count > k) drop();
}

/// The same in order, for a small k: a record better than the last is put in its place.
template <class T, class Record>
void insert_first(const RecordsOf<T>& row, int64_t n, int64_t k, Record* kept) {
  using Bits = typename RecordsOf<T>::Bits;
  const auto insert = [&](int64_t at, const Record& record) {
    for (; at > 0 && record < kept[at - 1]; --at) kept[at] = kept[at - 1];
    kept[at] = record;
  };
  const auto limit = [&] { return static_cast<Bits>(kept[k - 1].key()); };
  for (int64_t i = 0; i < k; ++i) insert(i, row[i]);
  for (int64_t i = row.find_below(limit(), k, n); i < n; i = row.find_below(limit(), i + 1, n))
    insert(k - 1, row[i]);
}

/// Sorts k records that are not in the order of their positions, with room for as many behind them.
template <class Sorter, class Record>
Record* in_order(const Sorter& sorter, Record* records, int64_t k) {
  Record* sorted = sorter.sort(records, records + k, k);
  for (int64_t i = 0, end = 1; i < k; i = end++) {
    while (end < k && sorted[end].key() == sorted[i].key()) ++end;
    std::sort(sorted + i, sorted + end);
  }
  return sorted;
}

void run_topk(const TopkParams& p, const RowsState& state, const Call& c) {
  const Rows& rows = state.layout;
  if (p.k == 0) return;
  switch_sorted(c.in[0].dtype(), [&]<class T>() {
    state.each_row<T>(c, [&](int64_t i, auto* records, const auto& sorter) {
      const Rows::Offsets at = rows.offsets(i);
      const RecordsOf<T> row(c.in[0], at.in, rows.in_step, p.largest);
      const auto* best = records;
      if (p.k <= kFewInserted) {
        insert_first(row, rows.length, p.k, records);
      } else {
        select_first(row, rows.length, p.k, records);
        if (p.sorted) best = in_order(sorter, records, p.k);
      }
      for (int64_t k = 0; k < p.k; ++k) {
        c.out[0].as<T>()[at.out + k * rows.out_step] = row.value(best[k]);
        c.out[1].as<int64_t>()[at.out + k * rows.out_step] = best[k].position();
      }
    });
  });
}

Support supports_unique(const NoParams&, const Specs& s) {
  return supports_length(s.in[0].numel()).with_contiguous(1);
}

std::shared_ptr<State> prepare_unique(const NoParams&, const Specs& s) {
  const int64_t n = s.in[0].numel();
  return std::make_shared<State>(1, n, 2 * n, s.in[0].dtype);
}

void run_unique(const NoParams&, const State& state, const Call& c) {
  const int64_t n = c.in[0].numel();
  switch_sorted(c.in[0].dtype(), [&]<class T>() {
    T* values = c.out[0].as<T>();
    auto* inverse = c.out[1].as<int64_t>();
    auto* counts = c.out[2].as<int64_t>();
    int64_t count = 0;
    state.each_row<T>(c, [&](int64_t, auto* records, const auto& sorter) {
      const RecordsOf<T> row(c.in[0], 0, 1, false);
      state.each_chunk(n, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) records[k] = row[k];
      });
      const auto* sorted = sorter.sort(records, records + n, n);
      for (int64_t k = 0; k < n; ++k) {
        const T value = row.value(sorted[k]);
        if (k == 0 || sorted[k].key() != sorted[k - 1].key() || value != value) {
          values[count] = value;
          counts[count++] = 0;
        }
        ++counts[count - 1];
        inverse[sorted[k].position()] = count - 1;
      }
    });
    std::fill(values + count, values + n, static_cast<T>(0));
    std::fill(counts + count, counts + n, 0);
    *c.out[3].as<int64_t>() = count;
  });
}

}  // namespace

Kernel sort_radix_kernel() { return kernel<supports_sort, prepare_sort, run_sort>("radix"); }
Kernel topk_selection_kernel() {
  return kernel<supports_topk, prepare_topk, run_topk>("selection");
}
Kernel unique_radix_kernel() {
  return kernel<supports_unique, prepare_unique, run_unique>("radix");
}

}  // namespace mica

#pragma once

#include <algorithm>

#include "mica/core/switch_bytes.h"
#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/reduce/axes.h"

// The loops that every reduction shares. A reducer R says what is done with the elements:
//   using Value            what an element is loaded as: see switch_value
//   using Acc              a partial result, trivially copyable
//   Acc start() const
//   void add(Acc&, const Value* x, int64_t n, int64_t first) const
//                          adds n elements side by side, the first of them at position `first` of
//                          the reduced ones; n is at most kBlock
//   void add_runs(Acc&, const Value* x, int64_t step, int64_t runs, int64_t n) const
//                          may be missing: adds runs of n elements, `step` apart, at most kBlock in
//                          all
//   void merge(Acc&, const Acc&) const             the second holds the later elements
//   using Columns          partial results of up to kColumns outputs side by side, with
//                          `Acc at(int64_t column) const`
//   void start(Columns&, int64_t columns) const
//   void add_rows(Columns&, const Value* x, int64_t step, int64_t rows, int64_t columns,
//                 int64_t first) const             rows lie `step` apart
//   void put(const Arg& out, int64_t at, const Acc&) const
namespace mica::reduction {

inline constexpr int64_t kBlock = 2048;
inline constexpr int64_t kColumns = 1024;
/// A reduction with fewer independent results than this is cut into pieces, the same whatever the
/// number of threads.
inline constexpr int64_t kPieces = 64;

/// Rows that a reducer takes together where it can.
inline constexpr int64_t kRows = 8;
/// Values of type T that loops work on at a time. At least 32: shorter loops are unrolled before
/// their choices could become vectors.
template <class T>
inline constexpr int lanes_of = sizeof(T) == 1   ? 128
                                : sizeof(T) == 2 ? 64
                                                 : 32;

/// Gives `n` elements from `data[offset]` on, `step` apart, side by side: where they lie, or
/// gathered and converted into `buffer`.
template <class Value>
using Load = const Value* (*)(const void* data, int64_t offset, int64_t step, int64_t n,
                              Value* buffer);

/// For a Value of the dtype's own size the elements are taken as they are; others are widened as
/// switch_value says.
template <class Value>
Load<Value> loader(DType t);

/// Calls `f` with the type that elements of a dtype are loaded as: the smallest of few that holds
/// them, so that reducers are not compiled for each dtype.
template <class F>
void switch_value(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return f.template operator()<float>();
    case DType::i64:
    case DType::u32:
      return f.template operator()<int64_t>();
    case DType::u64:
      return f.template operator()<uint64_t>();
    case DType::u8:
    case DType::boolean:
      return f.template operator()<uint8_t>();
    default:
      return f.template operator()<int32_t>();
  }
}

/// How the elements of an input lie: axes that stay (operands: in, out) and axes that go, each in
/// the input's memory order and merged where possible.
struct Plan : KernelState {
  StridedLoop<2> kept;
  StridedLoop<1> reduced;
  bool across = false;  ///< outputs whose elements lie side by side are computed side by side
  int64_t pieces = 1;

  Plan(const TensorSpec& in, const TensorSpec& out, const Dims& axes, size_t acc_bytes);

  /// Across: outputs that lie side by side in the input, in tiles of at most kColumns.
  int64_t width() const { return kept.inner(); }
  int64_t tiles() const { return (width() + kColumns - 1) / kColumns; }
};

/// Walks the first `rank` axes of a loop in row-major order.
template <int N>
class Odometer {
 public:
  std::array<int64_t, N> offset{};

  Odometer(const StridedLoop<N>& loop, int rank, int64_t at) : loop_(loop), rank_(rank) {
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      index_[a] = at % loop.size[a];
      at /= loop.size[a];
      for (size_t k = 0; k < N; ++k) offset[k] += index_[a] * loop.stride[k][a];
    }
  }
  /// Steps to the end of the last axis, and how far apart they are.
  int64_t left() const { return rank_ == 0 ? 1 : loop_.size[last()] - index_[last()]; }
  int64_t step() const { return rank_ == 0 ? 0 : loop_.stride[0][last()]; }
  /// So many steps, at most left().
  void advance(int64_t steps) {
    if (rank_ == 0) return;
    index_[last()] += steps - 1;
    for (size_t k = 0; k < N; ++k) offset[k] += (steps - 1) * loop_.stride[k][last()];
    next();
  }
  void next() {
    for (int axis = rank_ - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      for (size_t k = 0; k < N; ++k) offset[k] += loop_.stride[k][a];
      if (++index_[a] < loop_.size[a]) return;
      index_[a] = 0;
      for (size_t k = 0; k < N; ++k) offset[k] -= loop_.size[a] * loop_.stride[k][a];
    }
  }

 private:
  size_t last() const { return static_cast<size_t>(rank_ - 1); }

  const StridedLoop<N>& loop_;
  int rank_;
  std::array<int64_t, Dims::kMaxRank> index_{};
};

/// A reducer at work on one call.
template <class R>
class Reduction {
  using Value = typename R::Value;
  using Acc = typename R::Acc;

 public:
  Reduction(const Plan& plan, const R& reducer, const Call& c)
      : plan_(plan),
        r_(reducer),
        in_(c.in[0].data),
        load_(loader<Value>(c.in[0].dtype())),
        native_(size_of(c.in[0].dtype()) == sizeof(Value)),
        out_(c.out[0]),
        partial_(static_cast<Acc*>(c.workspace)) {}

  void run() {
    if (plan_.kept.numel == 0) return;
    plan_.across ? run_across() : run_along();
    if (plan_.pieces > 1) merge_pieces();
  }

 private:
  void run_along() {
    const int64_t n = plan_.reduced.numel;
    const int64_t pieces = plan_.pieces;
    const int64_t grain = std::max<int64_t>(1, kElementGrain * pieces / std::max<int64_t>(n, 1));
    parallel_for(plan_.kept.numel * pieces, grain, [&](int64_t begin, int64_t end) {
      Odometer<2> at(plan_.kept, plan_.kept.rank, begin / pieces);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t piece = unit % pieces;
        if (unit > begin && piece == 0) at.next();
        Acc acc = r_.start();
        add_range(acc, at.offset[0], n * piece / pieces, n * (piece + 1) / pieces);
        if (pieces > 1) {
          partial_[piece * plan_.kept.numel + unit / pieces] = acc;
        } else {
          r_.put(out_, at.offset[1], acc);
        }
      }
    });
  }

  /// Adds the elements [begin, end) of the reduced axes for the output whose elements start at
  /// `base`.
  void add_range(Acc& acc, int64_t base, int64_t begin, int64_t end) const {
    if (begin >= end) return;
    const int64_t n = plan_.reduced.inner();
    const int64_t step = plan_.reduced.inner_stride(0);
    alignas(64) Value buffer[kBlock];
    int64_t within = begin % n;
    Odometer<1> run(plan_.reduced, plan_.reduced.rank - 1, begin / n);
    for (int64_t i = begin; i < end; within = 0) {
      int64_t at = base + run.offset[0] + within * step;
      if constexpr (requires { r_.add_runs(acc, buffer, n, n, n); }) {
        const int64_t runs = std::min({run.left(), kBlock / n, (end - i) / n});
        if (native_ && step == 1 && within == 0 && runs > 1) {
          r_.add_runs(acc, static_cast<const Value*>(in_) + at, run.step(), runs, n);
          i += runs * n;
          run.advance(runs);
          continue;
        }
      }
      const int64_t stop = std::min(end, i - within + n);
      while (i < stop) {
        const int64_t m = std::min(kBlock, stop - i);
        r_.add(acc, load_(in_, at, step, m, buffer), m, i);
        i += m;
        at += m * step;
      }
      run.next();
    }
  }

  void run_across() {
    const int64_t n = plan_.reduced.numel;
    const int64_t pieces = plan_.pieces;
    const int64_t width = plan_.width();
    const int64_t tiles = plan_.tiles();
    const int64_t units = plan_.kept.numel / width * tiles * pieces;
    const int64_t work = std::max<int64_t>(1, n / pieces * std::min(width, kColumns));
    parallel_for(units, std::max<int64_t>(1, kElementGrain / work),
                 [&](int64_t begin, int64_t end) {
                   typename R::Columns columns;
                   for (int64_t unit = begin; unit < end; ++unit) {
                     // Neighbouring units read neighbouring rows.
                     const int64_t piece = unit / tiles % pieces;
                     const int64_t group = unit / tiles / pieces;
                     const int64_t first = unit % tiles * kColumns;
                     const int64_t m = std::min(kColumns, width - first);
                     const Odometer<2> at(plan_.kept, plan_.kept.rank - 1, group);
                     r_.start(columns, m);
                     add_row_range(columns, at.offset[0] + first, m, n * piece / pieces,
                                   n * (piece + 1) / pieces);
                     if (pieces > 1) {
                       Acc* partial = partial_ + piece * plan_.kept.numel + group * width + first;
                       for (int64_t j = 0; j < m; ++j) partial[j] = columns.at(j);
                     } else {
                       const int64_t step = plan_.kept.inner_stride(1);
                       for (int64_t j = 0; j < m; ++j)
                         r_.put(out_, at.offset[1] + (first + j) * step, columns.at(j));
                     }
                   }
                 });
  }

  /// Adds the elements [begin, end) of the reduced axes for `m` outputs side by side.
  void add_row_range(typename R::Columns& columns, int64_t base, int64_t m, int64_t begin,
                     int64_t end) const {
    const int64_t n = plan_.reduced.inner();
    const int64_t step = plan_.reduced.inner_stride(0);
    alignas(64) Value buffer[kRows * kColumns];
    if (begin >= end) return;
    Odometer<1> run(plan_.reduced, plan_.reduced.rank - 1, begin / n);
    for (int64_t i = begin; i < end; run.next()) {
      const int64_t within = i % n;
      const int64_t rows = std::min(end - i, n - within);
      const int64_t at = base + run.offset[0] + within * step;
      if (native_) {
        r_.add_rows(columns, static_cast<const Value*>(in_) + at, step, rows, m, i);
      } else {
        for (int64_t row = 0; row < rows; row += kRows) {
          const int64_t some = std::min(kRows, rows - row);
          for (int64_t k = 0; k < some; ++k)
            load_(in_, at + (row + k) * step, 1, m, buffer + k * kColumns);
          r_.add_rows(columns, buffer, kColumns, some, m, i + row);
        }
      }
      i += rows;
    }
  }

  void merge_pieces() {
    const int64_t count = plan_.kept.numel;
    parallel_for(count, kElementGrain / plan_.pieces, [&](int64_t begin, int64_t end) {
      Odometer<2> at(plan_.kept, plan_.kept.rank, begin);
      for (int64_t o = begin; o < end; ++o, at.next()) {
        Acc acc = partial_[o];
        for (int64_t piece = 1; piece < plan_.pieces; ++piece)
          r_.merge(acc, partial_[piece * count + o]);
        r_.put(out_, at.offset[1], acc);
      }
    });
  }

  const Plan& plan_;
  const R& r_;
  const void* in_;
  Load<Value> load_;
  bool native_;
  const Arg& out_;
  Acc* partial_;
};

template <class R>
void reduce(const Plan& plan, const R& reducer, const Call& c) {
  Reduction<R>(plan, reducer, c).run();
}

/// Rounds a result to the dtype of a floating output and writes it.
inline void put_float(const Arg& out, int64_t at, double value) {
  switch (out.dtype()) {
    case DType::f64:
      out.as<double>()[at] = value;
      break;
    case DType::f32:
      out.as<float>()[at] = static_cast<float>(value);
      break;
    case DType::f16:
      out.as<Half>()[at] = static_cast<float>(value);
      break;
    default:
      out.as<BFloat16>()[at] = static_cast<float>(value);
  }
}

/// Writes an integer to an output of its dtype or a narrower one.
template <class T>
void put_integer(const Arg& out, int64_t at, T value) {
  switch_bytes(size_of(out.dtype()),
               [&]<class Word>() { out.as<Word>()[at] = static_cast<Word>(value); });
}

/// Joins lanes into the first, halves at a time. Every loop has a constant length: the compiler
/// makes vectors of them, unless it takes the lanes apart together with the caller's.
template <int Lanes, class T, class Join>
[[gnu::always_inline]] inline void join_halves(T* lanes, Join& join) {
  constexpr int kHalf = Lanes / 2;
  for (int l = 0; l < kHalf; ++l) lanes[l] = join(lanes[l], lanes[l + kHalf]);
  if constexpr (kHalf > 1) join_halves<kHalf>(lanes, join);
}
template <int Lanes, class T, class Join>
[[gnu::noinline]] void join_lanes(T* lanes, Join join) {
  join_halves<Lanes>(lanes, join);
}

/// Sum of n values, in lanes.
template <class T, class Sum = T>
Sum sum_lanes(const T* x, int64_t n) {
  constexpr int kLanes = lanes_of<Sum>;
  Sum lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += static_cast<Sum>(x[i + l]);
  for (; i < n; ++i) lanes[0] += static_cast<Sum>(x[i]);
  join_lanes<kLanes>(lanes, [](Sum a, Sum b) { return a + b; });
  return lanes[0];
}

template <class T>
struct ColumnsOf {
  alignas(64) T v[kColumns];
  T at(int64_t column) const { return v[column]; }
};

/// A reducer that joins elements one by one. Policy P: `Value`; `Lane`, in which up to kBlock
/// elements are joined; `Acc`; `Acc start() const`, the neutral element of both; `Lane map(Value)
/// const`; `static T join(T, T)` for Lane and Acc; `void put(const Arg&, int64_t, Acc) const`.
template <class P>
struct Fold : P {
  using Value = typename P::Value;
  using Lane = typename P::Lane;
  using Acc = typename P::Acc;
  using Columns = ColumnsOf<Acc>;
  static constexpr int kLanes = lanes_of<Lane>;

  void add(Acc& acc, const Value* x, int64_t n, int64_t) const { add_runs(acc, x, 0, 1, n); }
  void add_runs(Acc& acc, const Value* x, int64_t step, int64_t runs, int64_t n) const {
    merge(acc, static_cast<Acc>(n < kLanes ? joined<false>(x, step, runs, n)
                                           : joined<true>(x, step, runs, n)));
  }
  /// All elements of the runs, which are kLanes or longer if Long.
  template <bool Long>
  Lane joined(const Value* x, int64_t step, int64_t runs, int64_t n) const {
    const auto neutral = static_cast<Lane>(P::start());
    Lane result = neutral;
    Lane few[4] = {neutral, neutral, neutral, neutral};
    [[maybe_unused]] Lane lanes[kLanes];
    int64_t i = 0;
    if constexpr (Long) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = P::join(neutral, P::map(x[l]));
      i = kLanes;
    }
    for (int64_t run = 0; run < runs; ++run, x += step, i = 0) {
      if constexpr (Long) {
        for (; i + kLanes <= n; i += kLanes)
          for (int l = 0; l < kLanes; ++l) lanes[l] = P::join(lanes[l], P::map(x[i + l]));
      }
      for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; ++l) few[l] = P::join(few[l], P::map(x[i + l]));
      for (; i < n; ++i) result = P::join(result, P::map(x[i]));
    }
    result = P::join(result, P::join(P::join(few[0], few[1]), P::join(few[2], few[3])));
    if constexpr (Long) {
      join_lanes<kLanes>(lanes, [](Lane a, Lane b) { return P::join(a, b); });
      result = P::join(result, lanes[0]);
    }
    return result;
  }
  void merge(Acc& acc, const Acc& more) const { acc = P::join(acc, more); }

  void start(Columns& c, int64_t m) const { std::fill_n(c.v, m, start()); }
  /// Some rows are joined in lanes first, so that the columns are written once for all of them.
  /// Where rows lie side by side they are taken far from each other: each is then a stream that
  /// the processor reads ahead.
  void add_rows(Columns& c, const Value* x, int64_t step, int64_t rows, int64_t m, int64_t) const {
    constexpr int kWide = sizeof(Lane) == 8 ? 32 : 64;
    const int64_t groups = rows / kRows;
    const int64_t apart = step == m ? groups * step : step;
    const Value* const rest = x + groups * kRows * step;
    for (int64_t group = 0; group < groups; ++group, x += step == m ? step : kRows * step) {
      int64_t j = 0;
      for (; j + kWide <= m; j += kWide) {
        Lane lanes[kWide];
        for (int l = 0; l < kWide; ++l) lanes[l] = P::map(x[j + l]);
        for (int64_t k = 1; k < kRows; ++k)
          for (int l = 0; l < kWide; ++l)
            lanes[l] = P::join(lanes[l], P::map(x[k * apart + j + l]));
        for (int l = 0; l < kWide; ++l)
          c.v[j + l] = P::join(c.v[j + l], static_cast<Acc>(lanes[l]));
      }
      for (int64_t k = 0; k < kRows; ++k) add_row(c, x + k * apart, j, m);
    }
    for (int64_t row = 0; row < rows % kRows; ++row) add_row(c, rest + row * step, 0, m);
  }
  void add_row(Columns& c, const Value* x, int64_t begin, int64_t end) const {
    for (int64_t j = begin; j < end; ++j) c.v[j] = P::join(c.v[j], static_cast<Acc>(P::map(x[j])));
  }

  Acc start() const { return P::start(); }
};

}  // namespace mica::reduction

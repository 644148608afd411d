#pragma once

#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/reduce/axes.h"

// The loops that every reduction shares. A reducer R says what is done with the elements:
//   using Value            what an element is loaded as: its own type, f16 and bf16 as float
//   using Acc              a partial result, trivially copyable
//   Acc start() const
//   void add(Acc&, const Value* x, int64_t n, int64_t first) const
//                          adds n elements side by side, the first of them at position `first` of
//                          the reduced ones; n is at most kBlock
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

/// For a Value of the dtype's own size the elements are taken as they are; float takes f16 and bf16
/// too.
template <class Value>
Load<Value> loader(DType t);

/// Calls `f` with the type that elements of a dtype are loaded as.
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
      return f.template operator()<int64_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::u8:
    case DType::boolean:
      return f.template operator()<uint8_t>();
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
    const int64_t n = plan_.reduced.inner();
    const int64_t step = plan_.reduced.inner_stride(0);
    alignas(64) Value buffer[kBlock];
    if (begin >= end) return;
    Odometer<1> run(plan_.reduced, plan_.reduced.rank - 1, begin / n);
    for (int64_t i = begin; i < end; run.next()) {
      const int64_t within = i % n;
      const int64_t stop = std::min(end, i - within + n);
      int64_t at = base + run.offset[0] + within * step;
      while (i < stop) {
        const int64_t m = std::min(kBlock, stop - i);
        r_.add(acc, load_(in_, at, step, m, buffer), m, i);
        i += m;
        at += m * step;
      }
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

/// Sum of n values, in lanes.
template <class T, class Sum = T>
Sum sum_lanes(const T* x, int64_t n) {
  constexpr int kLanes = lanes_of<Sum>;
  Sum lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += static_cast<Sum>(x[i + l]);
  for (; i < n; ++i) lanes[0] += static_cast<Sum>(x[i]);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
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

  void add(Acc& acc, const Value* x, int64_t n, int64_t) const {
    const auto neutral = static_cast<Lane>(P::start());
    Lane result = neutral;
    int64_t i = 0;
    if (n >= 2 * kLanes) {
      Lane lanes[kLanes];
      std::fill_n(lanes, kLanes, neutral);
      for (; i + kLanes <= n; i += kLanes)
        for (int l = 0; l < kLanes; ++l) lanes[l] = P::join(lanes[l], P::map(x[i + l]));
      for (int half = kLanes / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) lanes[l] = P::join(lanes[l], lanes[l + half]);
      result = lanes[0];
    }
    for (; i < n; ++i) result = P::join(result, P::map(x[i]));
    merge(acc, static_cast<Acc>(result));
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

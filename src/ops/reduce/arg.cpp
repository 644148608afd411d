#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/reduce/axes.h"
#include "mica/ops/reduce/cpu_reference.h"
#include "mica/ops/reduce/extreme.h"
#include "mica/ops/view/leading_axis.h"
namespace mica {
namespace {

void infer(const ArgmaxParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_not_empty(out.op(), in[0].shape, {p.axis});
  add_reduced(out, in[0].shape, {p.axis}, p.keepdim, DType::i64);
}

/// The position of the first of the best values.
template <class T, class Order>
struct Position {
  using Value = T;
  struct Acc {
    T value;
    int64_t position;
  };

  Acc start() const { return {Order::template worst<T>(), -1}; }

  /// The best value of a block is found first; where it lies is asked only if it is the best so
  /// far.
  void add(Acc& acc, const T* x, int64_t n, int64_t first) const {
    constexpr int kLanes = reduction::lanes_of<T>;
    T best = x[0];
    int64_t i = 0;
    if (n >= 2 * kLanes) {
      T lanes[kLanes];
      std::copy_n(x, kLanes, lanes);
      for (i = kLanes; i + kLanes <= n; i += kLanes)
        for (int l = 0; l < kLanes; ++l) lanes[l] = Order::winner(lanes[l], x[i + l]);
      for (int half = kLanes / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) lanes[l] = Order::winner(lanes[l], lanes[l + half]);
      best = lanes[0];
    }
    for (; i < n; ++i) best = Order::winner(best, x[i]);
    if (acc.position >= 0 && !Order::replaces(best, acc.value)) return;
    acc = {best, first + find(x, n, best)};
  }
  /// Where the first of n elements is that equals `value`, NaN too; there is one.
  static int64_t find(const T* x, int64_t n, T value) {
    constexpr int kLanes = 64;
    const auto same = [&](T v) {
      return static_cast<int>(v == value) |
             (static_cast<int>(v != v) & static_cast<int>(value != value));
    };
    int64_t at = 0;
    for (; at + kLanes <= n; at += kLanes) {
      int found = 0;
      for (int l = 0; l < kLanes; ++l) found |= same(x[at + l]);
      if (found != 0) break;
    }
    while (same(x[at]) == 0) ++at;
    return at;
  }
  void merge(Acc& acc, const Acc& more) const {
    if (acc.position < 0 || Order::replaces(more.value, acc.value)) acc = more;
  }

  /// Positions count from the first row added, so that they fit beside their values.
  using Index = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  struct Columns {
    alignas(64) T value[reduction::kColumns];
    alignas(64) Index row[reduction::kColumns];
    int64_t first;
    Acc at(int64_t j) const { return {value[j], first < 0 ? -1 : first + row[j]}; }
  };
  void start(Columns& c, int64_t m) const {
    std::fill_n(c.value, m, Order::template worst<T>());
    std::fill_n(c.row, m, 0);
    c.first = -1;
  }
  void add_rows(Columns& c, const T* x, int64_t step, int64_t rows, int64_t m,
                int64_t first) const {
    constexpr int kWide = 64;
    if (c.first < 0) c.first = first;
    int64_t here = first - c.first;
    const int64_t end = here + rows;
    for (; here + reduction::kRows <= end; here += reduction::kRows) {
      int64_t j = 0;
      for (; j + kWide <= m; j += kWide) {
        T value[kWide];
        Index row[kWide];
        std::copy_n(c.value + j, kWide, value);
        std::copy_n(c.row + j, kWide, row);
        for (int64_t k = 0; k < reduction::kRows; ++k)
          take(value, row, x + k * step + j, kWide, static_cast<Index>(here + k));
        std::copy_n(value, kWide, c.value + j);
        std::copy_n(row, kWide, c.row + j);
      }
      for (int64_t k = 0; k < reduction::kRows; ++k, x += step)
        take(c.value + j, c.row + j, x + j, m - j, static_cast<Index>(here + k));
    }
    for (; here < end; ++here, x += step) take(c.value, c.row, x, m, static_cast<Index>(here));
  }
  static void take(T* value, Index* row, const T* x, int64_t n, Index here) {
    for (int64_t j = 0; j < n; ++j) {
      const bool better = Order::replaces(x[j], value[j]);
      value[j] = better ? x[j] : value[j];
      row[j] = better ? here : row[j];
    }
  }
  void put(const Arg& out, int64_t at, const Acc& acc) const {
    out.as<int64_t>()[at] = acc.position;
  }
};

std::shared_ptr<reduction::Plan> prepare(const ArgmaxParams& p, const Specs& s) {
  return std::make_shared<reduction::Plan>(s.in[0], s.out[0], Dims{p.axis},
                                           sizeof(Position<double, Largest>::Acc));
}

template <class Order>
void run_vectorized(const ArgmaxParams&, const reduction::Plan& plan, const Call& c) {
  reduction::switch_value(c.in[0].dtype(),
                          [&]<class T>() { reduction::reduce(plan, Position<T, Order>(), c); });
}

template <class Order>
void run_reference(const ArgmaxParams& p, const Call& c) {
  reduction::reduce_reference_any({p.axis}, c, []<class W>(const reduction::Elements<W>& x) {
    int64_t best = 0;
    for (int64_t i = 1; i < x.size(); ++i)
      if (Order::replaces(x[i], x[best])) best = i;
    return best;
  });
}

template <class Order>
OpDef define(const char* name) {
  return Op<ArgmaxParams>(name)
      .inputs({"x"})
      .reduction()
      .infer<infer>()
      .no_gradient("an index does not change smoothly")
      .cpu({kernel<supports_all<ArgmaxParams>, prepare, run_vectorized<Order>>("vectorized"),
            kernel<supports_all<ArgmaxParams>, run_reference<Order>>("reference")})
      .build();
}

Tensor call(const OpDef& op, const Tensor& x, int64_t axis, bool keepdim) {
  return with_leading_axis(x, 1, [&](const Tensor& v) {
    return dispatch(op, ArgmaxParams{normalize_axis(axis, v.rank(), op.name), keepdim}, {v})[0];
  });
}

}  // namespace

const OpDef& argmax_op() {
  static OpDef def = define<Largest>("argmax");
  return def;
}

const OpDef& argmin_op() {
  static OpDef def = define<Smallest>("argmin");
  return def;
}

Tensor argmax(const Tensor& x, int64_t axis, bool keepdim) {
  return call(argmax_op(), x, axis, keepdim);
}

Tensor argmin(const Tensor& x, int64_t axis, bool keepdim) {
  return call(argmin_op(), x, axis, keepdim);
}

}  // namespace mica

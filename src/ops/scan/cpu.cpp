#include "mica/ops/scan/cpu.h"

#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/reduce/cpu_reference.h"
#include "mica/ops/scan/scan.h"
#include "mica/runtime/cpu/convert.h"

// Floats are scanned in double, integers modulo 2^64.
namespace mica {
namespace {

struct Plus {
  template <class C>
  static C neutral() {
    return 0;
  }
  template <class V>
  static V join(V a, V b) {
    return a + b;
  }
};
struct Times {
  template <class C>
  static C neutral() {
    return 1;
  }
  template <class V>
  static V join(V a, V b) {
    return a * b;
  }
};

/// One operand along the axis: element i of the row at `offset`, in the scan's direction.
struct Operand {
  void* data;
  int64_t start;  ///< of the scan in a row, in elements
  int64_t step;
  DType dtype;
};

/// Elements of any dtype to and from the type C that is scanned in.
template <class C>
struct Elements {
  using Signed = std::conditional_t<std::is_same_v<C, double>, double, int64_t>;
  static void load(const Operand& x, int64_t at, int64_t step, int64_t n, C* to) {
    switch_computed(x.dtype, "scan", [&]<class T>() {
      load_run<T, Signed>(static_cast<const T*>(x.data) + at, step, n,
                          reinterpret_cast<Signed*>(to));
    });
  }
  static void store(const C* from, int64_t n, const Operand& y, int64_t at, int64_t step) {
    const auto* values = reinterpret_cast<const Signed*>(from);
    switch_computed(y.dtype, "scan", [&]<class T>() {
      store_run<T, Signed>(values, n, static_cast<T*>(y.data) + at, step);
    });
  }
};

constexpr int64_t kBlock = 1024;
constexpr int64_t kColumns = 2048;
constexpr int64_t kFewColumns = 16;  // fewer are scanned one by one
constexpr int64_t kPieces = 64;      // of one long row

/// The axes that are not scanned, with the operands out, first input, last input.
struct Plan : KernelState {
  StridedLoop<3> rest;
  bool columns = false;  ///< rows side by side are scanned side by side
  int64_t pieces = 1;    ///< that a row is cut into
  bool exclusive = false;
  int64_t n = 0;

  Plan(const StridedLoop<3>& loop, const ScanParams& p, int64_t length)
      : rest(loop), exclusive(p.exclusive), n(length) {
    columns = rest.inner() >= kFewColumns && rest.inner_stride(0) == 1;
    if (!columns && rest.numel > 0 && rest.numel < kPieces)
      pieces = std::clamp<int64_t>(n / kElementGrain, 1, kPieces / rest.numel);
    workspace_bytes = static_cast<size_t>(pieces > 1 ? pieces * rest.numel : 0) * sizeof(double);
  }
};

std::shared_ptr<Plan> prepare(const ScanParams& p, const Specs& s) {
  const auto without_axis = [&](const Dims& dims) {
    Dims rest;
    for (int i = 0; i < dims.rank(); ++i)
      if (i != p.axis) rest.push_back(dims[i]);
    return rest;
  };
  const StridedLoop<3> rest(without_axis(s.out[0].shape),
                            {without_axis(s.out[0].strides), without_axis(s.in[0].strides),
                             without_axis(s.in.back().strides)});
  return std::make_shared<Plan>(rest, p, s.out[0].shape[static_cast<int>(p.axis)]);
}

Operand operand(const ScanParams& p, const Arg& arg) {
  const auto axis = static_cast<int>(p.axis);
  const int64_t stride = arg.strides()[axis];
  const int64_t last = (arg.shape()[axis] - 1) * stride;
  return {arg.data, p.reverse ? last : 0, p.reverse ? -stride : stride, arg.dtype()};
}

/// Offsets of row (or, among columns, of line of rows) `i` of the plan for each operand.
std::array<int64_t, 3> offsets(const StridedLoop<3>& loop, int axes, int64_t i) {
  std::array<int64_t, 3> at{};
  for (int axis = axes - 1; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    for (size_t k = 0; k < 3; ++k) at[k] += i % loop.size[a] * loop.stride[k][a];
    i /= loop.size[a];
  }
  return at;
}

/// Four values being scanned in C. Only one operation in four waits for the one before.
template <class Op, class C>
class Four {
 public:
  explicit Four(C carry) : before_(Vector{} + carry) {}

  /// Results of the four values x[0], x[step], …, where step is 1 or -1.
  template <class T>
  void scan(const T* x, T* y, int64_t step, bool exclusive) {
    typedef T Loaded __attribute__((vector_size(4 * sizeof(T))));
    const int64_t lowest = step < 0 ? -3 : 0;
    Loaded in;
    std::memcpy(&in, x + lowest, sizeof in);
    if (step < 0) in = __builtin_shufflevector(in, in, 3, 2, 1, 0);
    const Vector neutral = Vector{} + Op::template neutral<C>();
    Vector v = __builtin_convertvector(in, Vector);
    v = Op::join(v, __builtin_shufflevector(neutral, v, 0, 4, 5, 6));
    v = Op::join(v, __builtin_shufflevector(neutral, v, 0, 1, 4, 5));
    const Vector shown = exclusive ? __builtin_shufflevector(neutral, v, 0, 4, 5, 6) : v;
    Loaded out = __builtin_convertvector(Op::join(before_, shown), Loaded);
    if (step < 0) out = __builtin_shufflevector(out, out, 3, 2, 1, 0);
    std::memcpy(y + lowest, &out, sizeof out);
    before_ = Op::join(before_, __builtin_shufflevector(v, v, 3, 3, 3, 3));
  }
  C carry() const { return before_[0]; }

 private:
  typedef C Vector __attribute__((vector_size(4 * sizeof(C))));
  Vector before_;
};

/// Scans n values from `carry` on and returns the last sum (or product). x and y may be the same.
template <class Op, class C, class T>
C scan_run(const T* x, T* y, int64_t step, int64_t n, C carry, bool exclusive) {
  Four<Op, C> four(carry);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) four.scan(x + i * step, y + i * step, step, exclusive);
  carry = four.carry();
  for (; i < n; ++i) {
    const C next = Op::join(carry, static_cast<C>(x[i * step]));
    y[i * step] = static_cast<T>(exclusive ? carry : next);
    carry = next;
  }
  return carry;
}

/// Calls f with a type whose elements are scanned where they lie; false if there is none.
template <class C, class F>
bool in_place_type(const Operand& out, const Operand& in, F&& f) {
  if constexpr (std::is_same_v<C, double>) {
    if (in.dtype == DType::f32) return f.template operator()<float>(), true;
    if (in.dtype == DType::f64) return f.template operator()<double>(), true;
  } else {
    if (in.dtype == out.dtype) return f.template operator()<uint64_t>(), true;
  }
  return false;
}

template <class Op, class C>
struct Scan {
  const Plan& plan;
  Operand out, in;
  C* totals;  ///< of the pieces of each row

  void run() const {
    if (plan.rest.numel == 0 || plan.n == 0) return;
    if (plan.columns) return scan_columns();
    const bool in_pieces = plan.pieces > 1 && omp_get_max_threads() > 1 && !omp_in_parallel();
    const int64_t pieces = in_pieces ? plan.pieces : 1;
    const int64_t rows = plan.rest.numel;
    const int64_t grain = std::max<int64_t>(1, kElementGrain * pieces / plan.n);
    if (in_pieces) {
      each_piece(rows, pieces, grain, [&](int64_t row, int64_t begin, int64_t end, C& total) {
        total = total_of(row, begin, end);
      });
      for (int64_t row = 0; row < rows; ++row) {
        C carry = Op::template neutral<C>();
        for (int64_t k = row * pieces; k < (row + 1) * pieces; ++k)
          carry = Op::join(std::exchange(totals[k], carry), carry);
      }
      each_piece(rows, pieces, grain, [&](int64_t row, int64_t begin, int64_t end, C carry) {
        scan_row(row, begin, end, carry);
      });
    } else {
      parallel_for(rows, grain, [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row)
          scan_row(row, 0, plan.n, Op::template neutral<C>());
      });
    }
  }

 private:
  template <class F>
  void each_piece(int64_t rows, int64_t pieces, int64_t grain, F&& f) const {
    parallel_for(rows * pieces, grain, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        const int64_t piece = k % pieces;
        f(k / pieces, plan.n * piece / pieces, plan.n * (piece + 1) / pieces, totals[k]);
      }
    });
  }

  /// The sum (or product) of elements [begin, end) of a row.
  C total_of(int64_t row, int64_t begin, int64_t end) const {
    const auto at = offsets(plan.rest, plan.rest.rank, row);
    C total = Op::template neutral<C>();
    C buffer[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t m = std::min(kBlock, end - i);
      Elements<C>::load(in, at[1] + in.start + i * in.step, in.step, m, buffer);
      C lanes[8];
      std::fill_n(lanes, 8, Op::template neutral<C>());
      int64_t k = 0;
      for (; k + 8 <= m; k += 8)
        for (int l = 0; l < 8; ++l) lanes[l] = Op::join(lanes[l], buffer[k + l]);
      for (; k < m; ++k) lanes[0] = Op::join(lanes[0], buffer[k]);
      for (const C lane : lanes) total = Op::join(total, lane);
    }
    return total;
  }

  /// Scans elements [begin, end) of a row from `carry` on.
  void scan_row(int64_t row, int64_t begin, int64_t end, C carry) const {
    const auto at = offsets(plan.rest, plan.rest.rank, row);
    const int64_t from = at[1] + in.start + begin * in.step;
    const int64_t to = at[0] + out.start + begin * out.step;
    if (in.step == out.step && (in.step == 1 || in.step == -1) &&
        in_place_type<C>(out, in, [&]<class T>() {
          scan_run<Op>(static_cast<const T*>(in.data) + from, static_cast<T*>(out.data) + to,
                       in.step, end - begin, carry, plan.exclusive);
        }))
      return;
    C buffer[kBlock];
    for (int64_t i = 0; i < end - begin; i += kBlock) {
      const int64_t m = std::min(kBlock, end - begin - i);
      Elements<C>::load(in, from + i * in.step, in.step, m, buffer);
      carry = scan_run<Op>(buffer, buffer, 1, m, carry, plan.exclusive);
      Elements<C>::store(buffer, m, out, to + i * out.step, out.step);
    }
  }

  void scan_columns() const {
    const int64_t width = plan.rest.inner();
    const int64_t tiles = (width + kColumns - 1) / kColumns;
    const int64_t work = plan.n * std::min(width, kColumns);
    parallel_for(plan.rest.numel / width * tiles, std::max<int64_t>(1, kElementGrain / work),
                 [&](int64_t first, int64_t last) {
                   for (int64_t unit = first; unit < last; ++unit)
                     scan_tile(offsets(plan.rest, plan.rest.rank - 1, unit / tiles),
                               unit % tiles * kColumns, width);
                 });
  }

  void scan_tile(const std::array<int64_t, 3>& at, int64_t first, int64_t width) const {
    const int64_t m = std::min(kColumns, width - first);
    const int64_t across = plan.rest.inner_stride(1);
    const int64_t from = at[1] + first * across + in.start;
    const int64_t to = at[0] + first + out.start;
    C sums[kColumns];
    std::fill_n(sums, m, Op::template neutral<C>());
    if (across == 1 && in_place_type<C>(out, in, [&]<class T>() {
          for (int64_t i = 0; i < plan.n; ++i)
            scan_line(static_cast<const T*>(in.data) + from + i * in.step,
                      static_cast<T*>(out.data) + to + i * out.step, m, sums);
        }))
      return;
    C x[kColumns];
    for (int64_t i = 0; i < plan.n; ++i) {
      Elements<C>::load(in, from + i * in.step, across, m, x);
      scan_line(x, x, m, sums);
      Elements<C>::store(x, m, out, to + i * out.step, 1);
    }
  }

  /// One step of m scans side by side.
  template <class T>
  void scan_line(const T* x, T* y, int64_t m, C* sums) const {
    if (plan.exclusive) {
      for (int64_t j = 0; j < m; ++j) {
        const C next = Op::join(sums[j], static_cast<C>(x[j]));
        y[j] = static_cast<T>(sums[j]);
        sums[j] = next;
      }
    } else {
      for (int64_t j = 0; j < m; ++j) {
        sums[j] = Op::join(sums[j], static_cast<C>(x[j]));
        y[j] = static_cast<T>(sums[j]);
      }
    }
  }
};

template <class Op>
void run_vectorized(const ScanParams& p, const Plan& plan, const Call& c) {
  const Operand out = operand(p, c.out[0]);
  const Operand in = operand(p, c.in[0]);
  if (is_floating(out.dtype)) {
    Scan<Op, double>{plan, out, in, static_cast<double*>(c.workspace)}.run();
  } else {
    Scan<Op, uint64_t>{plan, out, in, static_cast<uint64_t*>(c.workspace)}.run();
  }
}

/// Calls f(offset of out, offset of the first input, offset of the last one) for each row.
template <class F>
void each_row(const Plan& plan, F&& f) {
  for (int64_t row = 0; row < plan.rest.numel; ++row) {
    const auto at = offsets(plan.rest, plan.rest.rank, row);
    f(at[0], at[1], at[2]);
  }
}

template <class Op, class Wide, class Wrap>
void scan_reference(const ScanParams& p, const Plan& plan, const Call& c) {
  const Operand out = operand(p, c.out[0]);
  const Operand in = operand(p, c.in[0]);
  const auto read = reduction::reader<Wide>(in.dtype);
  const auto write = reduction::writer<Wide>(out.dtype);
  each_row(plan, [&](int64_t to, int64_t from, int64_t) {
    auto before = Op::template neutral<Wrap>();
    for (int64_t i = 0; i < plan.n; ++i) {
      const Wrap here =
          Op::join(before, static_cast<Wrap>(read(in.data, from + in.start + i * in.step)));
      write(out.data, to + out.start + i * out.step,
            static_cast<Wide>(p.exclusive ? before : here));
      before = here;
    }
  });
}

template <class Op>
void run_reference(const ScanParams& p, const Plan& plan, const Call& c) {
  is_floating(c.out[0].dtype()) ? scan_reference<Op, double, double>(p, plan, c)
                                : scan_reference<Op, int64_t, uint64_t>(p, plan, c);
}

/// Rows one by one: each step waits for the one before.
void scan_linear_row(const Plan& plan, const Operand& out, const Operand& a, const Operand& b,
                     const std::array<int64_t, 3>& at) {
  double factors[kBlock];
  double values[kBlock + 1];
  double h = 0;
  for (int64_t i = 0; i < plan.n; i += kBlock) {
    const int64_t m = std::min(kBlock, plan.n - i);
    Elements<double>::load(a, at[1] + a.start + i * a.step, a.step, m, factors);
    Elements<double>::load(b, at[2] + b.start + i * b.step, b.step, m, values + 1);
    values[0] = h;
    for (int64_t k = 0; k < m; ++k) values[k + 1] = h = factors[k] * h + values[k + 1];
    Elements<double>::store(values + (plan.exclusive ? 0 : 1), m, out,
                            at[0] + out.start + i * out.step, out.step);
  }
}

void scan_linear_tile(const Plan& plan, const Operand& out, const Operand& a, const Operand& b,
                      const std::array<int64_t, 3>& at, int64_t first, int64_t m) {
  double h[kColumns] = {};
  double factors[kColumns];
  double values[kColumns];
  const int64_t across_a = plan.rest.inner_stride(1);
  const int64_t across_b = plan.rest.inner_stride(2);
  for (int64_t i = 0; i < plan.n; ++i) {
    const int64_t to = at[0] + first + out.start + i * out.step;
    if (plan.exclusive) Elements<double>::store(h, m, out, to, 1);
    Elements<double>::load(a, at[1] + first * across_a + a.start + i * a.step, across_a, m,
                           factors);
    Elements<double>::load(b, at[2] + first * across_b + b.start + i * b.step, across_b, m, values);
    for (int64_t j = 0; j < m; ++j) h[j] = factors[j] * h[j] + values[j];
    if (!plan.exclusive) Elements<double>::store(h, m, out, to, 1);
  }
}

void run_linear(const ScanParams& p, const Plan& plan, const Call& c) {
  if (plan.rest.numel == 0 || plan.n == 0) return;
  const Operand out = operand(p, c.out[0]);
  const Operand a = operand(p, c.in[0]);
  const Operand b = operand(p, c.in[1]);
  const int64_t width = plan.columns ? plan.rest.inner() : 1;
  const int64_t tiles = (width + kColumns - 1) / kColumns;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / (plan.n * std::min(width, kColumns)));
  parallel_for(plan.rest.numel / width * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      if (plan.columns) {
        const int64_t first = unit % tiles * kColumns;
        scan_linear_tile(plan, out, a, b, offsets(plan.rest, plan.rest.rank - 1, unit / tiles),
                         first, std::min(kColumns, width - first));
      } else {
        scan_linear_row(plan, out, a, b, offsets(plan.rest, plan.rest.rank, unit));
      }
    }
  });
}

void run_linear_reference(const ScanParams& p, const Plan& plan, const Call& c) {
  const Operand out = operand(p, c.out[0]);
  const Operand a = operand(p, c.in[0]);
  const Operand b = operand(p, c.in[1]);
  const auto read = reduction::reader<double>(a.dtype);
  const auto write = reduction::writer<double>(out.dtype);
  each_row(plan, [&](int64_t to, int64_t from_a, int64_t from_b) {
    double before = 0;
    for (int64_t i = 0; i < plan.n; ++i) {
      const double here = read(a.data, from_a + a.start + i * a.step) * before +
                          read(b.data, from_b + b.start + i * b.step);
      write(out.data, to + out.start + i * out.step, p.exclusive ? before : here);
      before = here;
    }
  });
}

template <class Op>
KernelList scan_kernels() {
  return {kernel<supports_all<ScanParams>, prepare, run_vectorized<Op>>("vectorized"),
          kernel<supports_all<ScanParams>, prepare, run_reference<Op>>("reference")};
}

}  // namespace

KernelList cumsum_cpu_kernels() { return scan_kernels<Plus>(); }
KernelList cumprod_cpu_kernels() { return scan_kernels<Times>(); }
KernelList linear_scan_cpu_kernels() {
  return {kernel<supports_all<ScanParams>, prepare, run_linear>("vectorized"),
          kernel<supports_all<ScanParams>, prepare, run_linear_reference>("reference")};
}

}  // namespace mica

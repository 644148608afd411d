#include "mica/ops/reduce/cpu.h"

#include <cmath>

#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {
namespace {

/// The axes of an input split into those that stay and those that are summed, each in memory order
/// and merged where possible.
struct Split {
  StridedLoop<1> kept;
  StridedLoop<1> reduced;

  static Split of(const TensorSpec& in, const Dims& axes) {
    Shape kept_shape, reduced_shape;
    Strides kept_strides, reduced_strides;
    for (int i = 0; i < in.rank(); ++i) {
      (axes.contains(i) ? reduced_shape : kept_shape).push_back(in.shape[i]);
      (axes.contains(i) ? reduced_strides : kept_strides).push_back(in.strides[i]);
    }
    return {StridedLoop<1>(kept_shape, {kept_strides}),
            StridedLoop<1>(reduced_shape, {reduced_strides})};
  }
};

/// Offset of the element with row-major index `i` in a loop.
int64_t offset_of(const StridedLoop<1>& loop, int64_t i, int axes) {
  int64_t at = 0;
  for (int axis = axes - 1; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    at += i % loop.size[a] * loop.stride[0][a];
    i /= loop.size[a];
  }
  return at;
}

template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

/// Offsets of the kept elements in the row-major order of the output.
int64_t kept_offset(const Arg& in, const Dims& axes, int64_t i) {
  int64_t at = 0;
  for (int axis = in.shape().rank() - 1; axis >= 0; --axis) {
    if (axes.contains(axis)) continue;
    at += i % in.shape()[axis] * in.strides()[axis];
    i /= in.shape()[axis];
  }
  return at;
}

void run_reference(const ReduceParams& p, const Call& c) {
  const Arg& in = c.in[0];
  const Split split = Split::of(*in.spec, p.axes);
  const int64_t n = split.reduced.numel;
  switch_all(in.dtype(), [&]<class T>() {
    using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
    Out* out = c.out[0].as<Out>();
    parallel_for(c.out[0].numel(), std::max<int64_t>(1, kElementGrain / std::max<int64_t>(n, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t o = begin; o < end; ++o) {
                     const T* x = in.as<T>() + kept_offset(in, p.axes, o);
                     Sum<T> s = 0;
                     for (int64_t i = 0; i < n; ++i)
                       s += static_cast<Sum<T>>(x[offset_of(split.reduced, i, split.reduced.rank)]);
                     out[o] = static_cast<Out>(s);
                   }
                 });
  });
}

/// Sums a dense run in f32 lanes, carried to double every block.
template <class T>
double sum_run(const T* x, int64_t n) {
  constexpr int64_t kBlock = 1024;
  double total = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    Compute<T> s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < m; ++j) s += static_cast<Compute<T>>(x[i + j]);
    total += static_cast<double>(s);
  }
  return total;
}

/// How many outputs lie beside each other in the input and in the output; 0 if none do.
int64_t columns_of(const TensorSpec& in, const ReduceParams& p, const Split& split) {
  const int last = in.rank() - 1;
  if (last >= 0 && !p.axes.contains(last) && in.strides[last] == 1) return in.shape[last];
  // One axis is kept, wherever it stands: the channels of channels_last.
  return split.kept.rank == 1 && split.kept.inner_stride(0) == 1 ? split.kept.numel : 0;
}

Support supports_vectorized(const ReduceParams& p, const Specs& s) {
  if (!is_floating(s.in[0].dtype)) return Support::no("it sums floats only");
  if (s.in[0].numel() == 0) return Support::no("the input is empty");
  const Split split = Split::of(s.in[0], p.axes);
  if (split.reduced.inner_stride(0) != 1 && columns_of(s.in[0], p, split) == 0)
    return Support::no("neither summed nor kept elements lie beside each other");
  return Support::yes();
}

constexpr int64_t kPieces = 64;  // a full sum is cut into this many, whatever the number of threads

struct SumState : KernelState {
  explicit SumState(const Split& s) : split(s) { workspace_bytes = kPieces * sizeof(double); }
  Split split;
};

std::shared_ptr<SumState> prepare_vectorized(const ReduceParams& p, const Specs& s) {
  return std::make_shared<SumState>(Split::of(s.in[0], p.axes));
}

template <class T>
void sum_along(const ReduceParams& p, const Split& split, const Call& c) {
  const Arg& in = c.in[0];
  T* out = c.out[0].as<T>();
  const int64_t n = split.reduced.inner();
  const int64_t runs = split.reduced.numel / n;
  const int64_t count = c.out[0].numel();
  if (count == 1 && runs == 1 && n > kElementGrain) {
    auto* partial = static_cast<double*>(c.workspace);
    parallel_for(kPieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        partial[k] = sum_run(in.as<T>() + n * k / kPieces, n * (k + 1) / kPieces - n * k / kPieces);
    });
    double s = 0;
    for (int64_t k = 0; k < kPieces; ++k) s += partial[k];
    out[0] = static_cast<T>(s);
    return;
  }
  parallel_for(count, std::max<int64_t>(1, kElementGrain / split.reduced.numel),
               [&](int64_t begin, int64_t end) {
                 for (int64_t o = begin; o < end; ++o) {
                   const T* x = in.as<T>() + kept_offset(in, p.axes, o);
                   double s = 0;
                   for (int64_t r = 0; r < runs; ++r)
                     s += sum_run(x + offset_of(split.reduced, r, split.reduced.rank - 1), n);
                   out[o] = static_cast<T>(s);
                 }
               });
}

/// Columns: neighbouring outputs, `width` of them in a row, are summed side by side.
template <class T>
void sum_across(const ReduceParams& p, const Split& split, int64_t width, const Call& c) {
  constexpr int64_t kColumns = 256;
  const Arg& in = c.in[0];
  T* out = c.out[0].as<T>();
  const int64_t rows = c.out[0].numel() / width;
  const int64_t pieces = (width + kColumns - 1) / kColumns;
  const int64_t n = split.reduced.numel;
  const int64_t inner = split.reduced.inner();
  const int64_t step = split.reduced.inner_stride(0);
  parallel_for(rows * pieces, std::max<int64_t>(1, kElementGrain / (n * std::min(width, kColumns))),
               [&](int64_t begin, int64_t end) {
                 for (int64_t k = begin; k < end; ++k) {
                   const int64_t first = k % pieces * kColumns;
                   const int64_t m = std::min(kColumns, width - first);
                   const int64_t o = k / pieces * width + first;
                   const T* x = in.as<T>() + kept_offset(in, p.axes, o);
                   double s[kColumns] = {};
                   for (int64_t run = 0; run < n / inner; ++run) {
                     const T* row = x + offset_of(split.reduced, run, split.reduced.rank - 1);
                     for (int64_t i = 0; i < inner; ++i, row += step)
                       for (int64_t j = 0; j < m; ++j)
                         s[j] += static_cast<double>(static_cast<Compute<T>>(row[j]));
                   }
                   for (int64_t j = 0; j < m; ++j) out[o + j] = static_cast<T>(s[j]);
                 }
               });
}

void run_vectorized(const ReduceParams& p, const SumState& state, const Call& c) {
  switch_float(c.in[0].dtype(), "sum", [&]<class T>() {
    if (state.split.reduced.inner_stride(0) == 1) {
      sum_along<T>(p, state.split, c);
    } else {
      sum_across<T>(p, state.split, columns_of(*c.in[0].spec, p, state.split), c);
    }
  });
}

void run_argmax(const ArgmaxParams& p, const Call& c) {
  const Arg& in = c.in[0];
  const auto axis = static_cast<int>(p.axis);
  const int64_t n = in.shape()[axis];
  const int64_t step = in.strides()[axis];
  auto* out = c.out[0].as<int64_t>();
  switch_all(in.dtype(), [&]<class T>() {
    parallel_for(c.out[0].numel(), std::max<int64_t>(1, kElementGrain / n),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t o = begin; o < end; ++o) {
                     const T* x = in.as<T>() + kept_offset(in, {axis}, o);
                     int64_t best = 0;
                     for (int64_t i = 1; i < n; ++i) {
                       const auto v = static_cast<Compute<T>>(x[i * step]);
                       const auto b = static_cast<Compute<T>>(x[best * step]);
                       if (v > b || (v != v && b == b)) best = i;
                     }
                     out[o] = best;
                   }
                 });
  });
}

}  // namespace

KernelList sum_cpu_kernels() {
  return {kernel<supports_vectorized, prepare_vectorized, run_vectorized>("vectorized"),
          kernel<supports_all<ReduceParams>, run_reference>("reference")};
}

KernelList argmax_cpu_kernels() {
  return {kernel<supports_all<ArgmaxParams>, run_argmax>("reference")};
}

}  // namespace mica

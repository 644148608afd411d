// A dense tensor is (outer, n, inner) in memory, the axis in the middle. Where inner is 1 a line is
// a row: a few threads, or a block, hold it in registers, so it is read and written once. Rows too
// long for that, and lines along other axes, are read twice.
#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/layouts.h"
#include "mica/ops/softmax/cuda_columns.cuh"
#include "mica/ops/softmax/cuda_line.cuh"
#include "mica/ops/softmax/cuda_row.cuh"
#include "mica/ops/softmax/lines.h"
#include "mica/ops/softmax/softmax.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/rows.cuh"

namespace mica {
namespace {

using namespace mica::cuda;
using namespace mica::cuda::softmax_line;

constexpr int kMostThreads = 1024;     ///< of a block for one row
constexpr int kMostGradThreads = 512;  ///< the same, for the gradient
constexpr int kMostAcross = 32;        ///< threads that share a column
constexpr int64_t kEnoughThreads = 1 << 18;
constexpr int64_t kMostBlocks = 1 << 20;

template <class T, bool logarithm, bool exact>
__global__ void __launch_bounds__(kMostThreads) held_rows(Rows rows, int group, const T* x, T* y) {
  using C = Compute<T>;
  constexpr int V = Row<T>::kWidth;
  const int lane = static_cast<int>(threadIdx.x) % group;
  const int groups = static_cast<int>(blockDim.x) / group;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  // All threads of a block stay in the loop, since they reduce together.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < rows.count;
       first += step) {
    const Row<T> row(rows, first + static_cast<int>(threadIdx.x) / group);
    Held<T, exact> held;
    held.load(row, x, lane, group, lowest<C>());
    C value[kHeld][V];
    C largest = lowest<C>();
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const Vec<T, V> v = held.vector(k);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        value[k][e] = to_compute(v.v[e]);
        largest = LargerOf{}(largest, value[k][e]);
      }
    }
    largest = group_reduce(largest, lowest<C>(), group, LargerOf{});
    C sum = 0;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
#pragma unroll
      for (int e = 0; e < V; ++e) {
        value[k][e] -= largest;
        const C power = exponential<T>(value[k][e]);
        sum += power;
        if (!logarithm) value[k][e] = power;
      }
    }
    const C last = last_of(group_sum(sum, group), logarithm);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
#pragma unroll
      for (int e = 0; e < V; ++e) value[k][e] = logarithm ? value[k][e] - last : value[k][e] * last;
      held.set(k, pack<T>(value[k]));
    }
    held.store(row, y, lane, group);
  }
}

/// Two large blocks of halves fit, where what is computed from them is not held too.
template <class T, bool logarithm, bool exact>
__global__ void __launch_bounds__(kMostGradThreads, is_half<T>&& exact ? 2 : 1)
    held_rows_grad(Rows rows, int group, const T* dy, const T* y, T* dx) {
  using C = Compute<T>;
  constexpr int V = Row<T>::kWidth;
  const int lane = static_cast<int>(threadIdx.x) % group;
  const int groups = static_cast<int>(blockDim.x) / group;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < rows.count;
       first += step) {
    const Row<T> row(rows, first + static_cast<int>(threadIdx.x) / group);
    Held<T, exact> slope;
    Held<T, exact> value;
    slope.load(row, dy, lane, group, C(0));
    value.load(row, y, lane, group, C(0));
    C sum = 0;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const Vec<T, V> d = slope.vector(k);
      const Vec<T, V> v = value.vector(k);
#pragma unroll
      for (int e = 0; e < V; ++e)
        sum += grad_term(to_compute(d.v[e]), to_compute(v.v[e]), logarithm);
    }
    sum = group_sum(sum, group);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const Vec<T, V> d = slope.vector(k);
      const Vec<T, V> v = value.vector(k);
      C result[V];
#pragma unroll
      for (int e = 0; e < V; ++e)
        result[e] = derivative<T>(to_compute(d.v[e]), to_compute(v.v[e]), sum, logarithm);
      slope.set(k, pack<T>(result));
    }
    slope.store(row, dx, lane, group);
  }
}

/// A block for each row, which it reads twice.
template <class T>
__global__ void __launch_bounds__(kMostThreads)
    long_rows(Rows rows, bool logarithm, const T* x, T* y) {
  using C = Compute<T>;
  constexpr int V = Row<T>::kWidth;
  const int threads = static_cast<int>(blockDim.x);
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const Row<T> row(rows, r);
    OnlineSum<T> online;
    for (int64_t first = threadIdx.x; first < row.vectors(); first += threads * kHeld) {
      Vec<T, V> v[kHeld];
#pragma unroll
      for (int k = 0; k < kHeld; ++k)
        v[k] = row.load(x, first + k * threads, convert<T>(lowest<C>()));
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        C values[V];
#pragma unroll
        for (int e = 0; e < V; ++e) values[e] = to_compute(v[k].v[e]);
        online.take(values);
      }
    }
    online.raise(group_reduce(online.largest, lowest<C>(), threads, LargerOf{}));
    const C last = last_of(group_sum(online.sum, threads), logarithm);
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < row.vectors(); i += threads) {
      Vec<T, V> v = row.load(x, i, convert<T>(C(0)));
#pragma unroll
      for (int e = 0; e < V; ++e)
        v.v[e] = convert<T>(finish<T>(to_compute(v.v[e]), online.largest, last, logarithm));
      row.store(y, i, v);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kMostGradThreads)
    long_rows_grad(Rows rows, bool logarithm, const T* dy, const T* y, T* dx) {
  using C = Compute<T>;
  constexpr int V = Row<T>::kWidth;
  const int threads = static_cast<int>(blockDim.x);
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const Row<T> row(rows, r);
    C sum = 0;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < row.vectors(); i += threads) {
      const Vec<T, V> slope = row.load(dy, i, convert<T>(C(0)));
      const Vec<T, V> value = row.load(y, i, convert<T>(C(0)));
#pragma unroll
      for (int e = 0; e < V; ++e)
        sum += grad_term(to_compute(slope.v[e]), to_compute(value.v[e]), logarithm);
    }
    sum = group_sum(sum, threads);
#pragma unroll 2
    for (int64_t i = threadIdx.x; i < row.vectors(); i += threads) {
      Vec<T, V> slope = row.load(dy, i, convert<T>(C(0)));
      const Vec<T, V> value = row.load(y, i, convert<T>(C(0)));
#pragma unroll
      for (int e = 0; e < V; ++e)
        slope.v[e] = convert<T>(
            derivative<T>(to_compute(slope.v[e]), to_compute(value.v[e]), sum, logarithm));
      row.store(dx, i, slope);
    }
  }
}

struct SoftmaxState : SoftmaxLines {
  using SoftmaxLines::SoftmaxLines;
  bool aligned = false;
  bool exact = false;  ///< rows are whole vectors
  bool held = true;    ///< they are in registers
  RowThreads rows;
  int shares = 1;  ///< threads of a column
};

Support supports(const SoftmaxParams&, const Specs& specs) { return supports_layouts(specs, 0b1); }
Support supports_grad(const SoftmaxParams&, const Specs& specs) {
  return supports_layouts(specs, 0b11);
}

void plan_rows(SoftmaxState& s, int64_t v, int most_threads) {
  const int64_t vectors = ceil_div(s.n + (s.aligned && s.n % v != 0 ? v - 1 : 0), v);
  s.rows = row_threads(vectors, kHeld, most_threads);
  s.exact = s.aligned && s.n % v == 0;
  s.held = vectors <= int64_t{s.rows.group} * kHeld;
}

template <int most_threads>
std::shared_ptr<SoftmaxState> prepare(const SoftmaxParams& p, const Specs& specs) {
  const TensorSpec& out = specs.out[0];
  auto state = std::make_shared<SoftmaxState>(out, p.axis);
  state->aligned = out.aligned && std::all_of(specs.in.begin(), specs.in.end(),
                                              [](const TensorSpec& s) { return s.aligned; });
  if (state->inner == 1) {
    plan_rows(*state, static_cast<int64_t>(16 / size_of(out.dtype)), most_threads);
  } else {
    while (state->shares < kMostAcross &&
           state->outer * state->inner * state->shares < kEnoughThreads &&
           state->shares * kSteps < state->n)
      state->shares *= 2;
  }
  return state;
}

/// Calls `with_rows` or `with_columns` with the blocks of a grid, the block and the lines.
template <class F, class G>
void launch_lines(const SoftmaxState& s, F&& with_rows, G&& with_columns) {
  if (s.outer * s.n * s.inner == 0) return;
  if (s.inner == 1) {
    with_rows(row_grid(s.outer, s.rows), Rows{.count = s.outer, .n = s.n, .aligned = s.aligned});
  } else {
    const dim3 block(static_cast<unsigned>(kColumnThreads / s.shares),
                     static_cast<unsigned>(s.shares));
    const int64_t columns = s.outer * s.inner;
    with_columns(static_cast<unsigned>(std::min(ceil_div<int64_t>(columns, block.x), kMostBlocks)),
                 block, Columns{.count = columns, .n = s.n, .inner = s.inner});
  }
}

template <bool logarithm>
void run(const SoftmaxParams&, const SoftmaxState& s, const Call& c) {
  cuda_switch_float(c.out[0].dtype(), "softmax", [&]<class T>() {
    const T* x = c.in[0].as<const T>();
    T* y = c.out[0].as<T>();
    launch_lines(
        s,
        [&](unsigned grid, const Rows& rows) {
          if (s.held) {
            const auto kernel =
                s.exact ? held_rows<T, logarithm, true> : held_rows<T, logarithm, false>;
            c.encoder->launch(kernel, grid, s.rows.threads, 0, rows, s.rows.group, x, y);
          } else {
            c.encoder->launch(long_rows<T>, grid, s.rows.threads, 0, rows, logarithm, x, y);
          }
        },
        [&](unsigned grid, dim3 block, const Columns& columns) {
          c.encoder->launch(columns_forward<T>, grid, block, 0, columns, logarithm, x, y);
        });
  });
}

template <bool logarithm>
void run_grad(const SoftmaxParams&, const SoftmaxState& s, const Call& c) {
  cuda_switch_float(c.out[0].dtype(), "softmax_grad", [&]<class T>() {
    const T* dy = c.in[0].as<const T>();
    const T* y = c.in[1].as<const T>();
    T* dx = c.out[0].as<T>();
    launch_lines(
        s,
        [&](unsigned grid, const Rows& rows) {
          if (s.held) {
            const auto kernel =
                s.exact ? held_rows_grad<T, logarithm, true> : held_rows_grad<T, logarithm, false>;
            c.encoder->launch(kernel, grid, s.rows.threads, 0, rows, s.rows.group, dy, y, dx);
          } else {
            c.encoder->launch(long_rows_grad<T>, grid, s.rows.threads, 0, rows, logarithm, dy, y,
                              dx);
          }
        },
        [&](unsigned grid, dim3 block, const Columns& columns) {
          c.encoder->launch(columns_grad<T>, grid, block, 0, columns, logarithm, dy, y, dx);
        });
  });
}

}  // namespace

KernelList softmax_cuda_kernels() {
  return {kernel<supports, prepare<kMostThreads>, run<false>>("online")};
}
KernelList log_softmax_cuda_kernels() {
  return {kernel<supports, prepare<kMostThreads>, run<true>>("online")};
}
KernelList softmax_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare<kMostGradThreads>, run_grad<false>>("online")};
}
KernelList log_softmax_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare<kMostGradThreads>, run_grad<true>>("online")};
}

}  // namespace mica

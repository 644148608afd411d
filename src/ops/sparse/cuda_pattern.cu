#include <algorithm>
#include <bit>

#include "mica/ops/sort/cuda_radix.h"
#include "mica/ops/sparse/csr.h"
#include "mica/ops/sparse/cuda_pattern.cuh"
#include "mica/runtime/cuda/check.h"

// Patterns themselves: a thread to each entry, which finds its row.
namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

/// Calls f(t) in some thread for each t below n.
template <class F>
__device__ void for_each_thread(int64_t n, F&& f) {
  for (int64_t t = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; t < n;
       t += static_cast<int64_t>(gridDim.x) * kThreads)
    f(t);
}

/// Threads for all rows and entries, and one where there are none.
template <class I>
__host__ __device__ int64_t threads_for(const DevicePattern<I>& a) {
  const int64_t most = a.rows > a.entries ? a.rows : a.entries;
  return most > 1 ? most : 1;
}

template <class I>
__global__ void __launch_bounds__(kThreads)
    check_order(const __grid_constant__ DevicePattern<I> a, bool* rise) {
  for_each_thread(threads_for(a), [&](int64_t t) {
    a.check_row(t);
    if (t >= a.entries || a.column(t) < 0 || t == 0 || a.rows == 0) return;
    if (a.col[t - 1] >= a.col[t] && static_cast<int64_t>(a.crow[a.row_of(t)]) != t) *rise = false;
  });
}

void run_check(const CsrParams& p, const Call& c) {
  cuda_switch_index(c.in[0].dtype(), [&]<class I>() {
    const DevicePattern<I> a(MICA_PATTERN_TEXTS("csr_check"), c, c.in[0], c.in[1], p.columns);
    find_order(c, a, c.out[0].as<bool>());
  });
}

template <class I>
__global__ void __launch_bounds__(kThreads)
    write_coordinates(const __grid_constant__ DevicePattern<I> a, I* row, I* column) {
  for_each_thread(threads_for(a), [&](int64_t t) {
    a.check_row(t);
    if (t >= a.entries) return;
    row[t] = static_cast<I>(a.row_of(t));
    column[t] = static_cast<I>(a.column(t));
  });
}

void run_coordinates(const CsrParams& p, const Call& c) {
  cuda_switch_index(c.in[0].dtype(), [&]<class I>() {
    const DevicePattern<I> a(MICA_PATTERN_TEXTS("csr_coordinates"), c, c.in[0], c.in[1], p.columns);
    I* row = c.out[0].as<I>();
    c.encoder->launch(write_coordinates<I>, grid_over(threads_for(a), kThreads), kThreads, 0, a,
                      row, row + a.entries);
  });
}

/// The row of each entry, and its column as the key to sort by.
template <class I>
__global__ void __launch_bounds__(kThreads)
    make_keys(const __grid_constant__ DevicePattern<I> a, uint32_t* rows, uint32_t* keys,
              uint32_t* positions) {
  for_each_thread(threads_for(a), [&](int64_t t) {
    a.check_row(t);
    if (t >= a.entries) return;
    const int64_t column = a.column(t);
    rows[t] = static_cast<uint32_t>(a.row_of(t));
    keys[t] = column < 0 ? 0 : static_cast<uint32_t>(column);
    positions[t] = static_cast<uint32_t>(t);
  });
}

template <class I>
__global__ void __launch_bounds__(kThreads)
    write_transposed(int64_t columns, int64_t entries, const uint32_t* rows, RadixPairs::Sorted by,
                     I* crow, I* col, int64_t* order) {
  for_each_thread(::max(columns + 1, entries), [&](int64_t t) {
    if (t < entries) {
      order[t] = by.positions[t];
      col[t] = static_cast<I>(rows[by.positions[t]]);
    }
    if (t > columns) return;
    int64_t low = 0;  // entries of the columns before this one
    int64_t high = entries;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (by.keys[middle] < t) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    crow[t] = static_cast<I>(low);
  });
}

struct TransposeState : KernelState {
  TransposeState(int64_t count, int64_t columns)
      : entries(count),
        pairs(count, static_cast<int>(std::bit_width(static_cast<uint64_t>(columns) | 1))) {
    workspace_bytes = pairs.workspace_bytes() + static_cast<size_t>(entries) * sizeof(uint32_t);
  }
  int64_t entries;
  RadixPairs pairs;
};

Support supports_transpose(const CsrParams& p, const Specs& s) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  if (s.in[1].numel() > kMost || s.in[0].numel() > kMost || p.columns > kMost)
    return Support::no("2^31 rows, columns or entries, or more");
  return supports_row_major(p, s);
}

std::shared_ptr<TransposeState> prepare_transpose(const CsrParams& p, const Specs& s) {
  return std::make_shared<TransposeState>(s.in[1].numel(), p.columns);
}

/// A stable sort by columns: entries of one keep the order of their rows.
void run_transpose(const CsrParams& p, const TransposeState& s, const Call& c) {
  auto* rows =
      reinterpret_cast<uint32_t*>(static_cast<std::byte*>(c.workspace) + s.pairs.workspace_bytes());
  cuda_switch_index(c.in[0].dtype(), [&]<class I>() {
    const DevicePattern<I> a(MICA_PATTERN_TEXTS("csr_transpose"), c, c.in[0], c.in[1], p.columns);
    c.encoder->launch(make_keys<I>, grid_over(threads_for(a), kThreads), kThreads, 0, a, rows,
                      s.pairs.keys(c.workspace), s.pairs.positions(c.workspace));
    const RadixPairs::Sorted sorted = s.pairs.sort(*c.encoder, c.workspace);
    c.encoder->launch(write_transposed<I>, grid_over(std::max(p.columns + 1, s.entries), kThreads),
                      kThreads, 0, p.columns, s.entries, rows, sorted, c.out[0].as<I>(),
                      c.out[1].as<I>(), c.out[2].as<int64_t>());
  });
}

struct KeyTexts {
  const char *row, *column;
};

template <class I>
__global__ void __launch_bounds__(kThreads)
    write_keys(const I* indices, int64_t entries, CooKeysParams p, int64_t* keys, KeyTexts texts,
               Fault* fault) {
  for_each_thread(entries, [&](int64_t e) {
    const auto row = static_cast<int64_t>(indices[e]);
    const auto column = static_cast<int64_t>(indices[entries + e]);
    const bool row_fits = row >= 0 && row < p.rows;
    const bool column_fits = column >= 0 && column < p.columns;
    if (!row_fits) note_fault(fault, {row, e, p.rows, texts.row});
    if (!column_fits) note_fault(fault, {column, e, p.columns, texts.column});
    keys[e] = row_fits && column_fits ? row * p.columns + column : 0;
  });
}

void run_keys(const CooKeysParams& p, const Call& c) {
  const KeyTexts texts{"coo_keys: index {0} at [0, {1}] is out of range for {2} rows",
                       "coo_keys: index {0} at [1, {1}] is out of range for {2} columns"};
  const int64_t entries = c.out[0].numel();
  cuda_switch_index(c.in[0].dtype(), [&]<class I>() {
    c.encoder->launch(write_keys<I>, grid_over(entries, kThreads), kThreads, 0,
                      c.in[0].as<const I>(), entries, p, c.out[0].as<int64_t>(), texts,
                      c.encoder->fault());
  });
}

}  // namespace

template <class I>
void cuda::find_order(const Call& c, const DevicePattern<I>& a, bool* rise) {
  check_cuda(cudaMemsetAsync(rise, 1, sizeof(bool), c.encoder->stream()));
  c.encoder->launch(check_order<I>, grid_over(threads_for(a), kThreads), kThreads, 0, a, rise);
}
template void cuda::find_order(const Call&, const DevicePattern<int32_t>&, bool*);
template void cuda::find_order(const Call&, const DevicePattern<int64_t>&, bool*);

KernelList csr_check_cuda_kernels() {
  return {kernel<supports_row_major<CsrParams>, run_check>("entries")};
}
KernelList csr_coordinates_cuda_kernels() {
  return {kernel<supports_row_major<CsrParams>, run_coordinates>("entries")};
}
KernelList csr_transpose_cuda_kernels() {
  return {kernel<supports_transpose, prepare_transpose, run_transpose>("radix")};
}
KernelList coo_keys_cuda_kernels() {
  return {kernel<supports_row_major<CooKeysParams>, run_keys>("entries")};
}

}  // namespace mica

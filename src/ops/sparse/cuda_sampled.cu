#include <algorithm>

#include "mica/ops/sparse/csr.h"
#include "mica/ops/sparse/cuda_pattern.cuh"
#include "mica/ops/sparse/cuda_table.cuh"

// Products at the entries of a pattern, of dense and of sparse matrices.
namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

namespace dense_inputs {
enum In { kCrow, kCol, kA, kB };
}

template <class T, class I>
struct Sampled {
  DevicePattern<I> pattern;
  const T* a;  ///< (rows, k)
  const T* b;  ///< (columns, k)
  T* y;
  int64_t k;
};

/// A warp has 32 entries: each lane finds row and column of one, then kLanes lanes compute a dot
/// product, 32 / kLanes of them beside each other.
template <class T, class I, int kVec, int kLanes>
__global__ void __launch_bounds__(kThreads) dot_entries(const __grid_constant__ Sampled<T, I> p) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t most = ::max(p.pattern.rows, p.pattern.entries);
  // Whole warps stay in the loop, and one thread comes even where there is nothing.
  for (int64_t t = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; t - lane <= most;
       t += threads) {
    p.pattern.check_row(t);
    int64_t row = 0;
    int64_t column = -1;
    if (t < p.pattern.entries && p.pattern.rows > 0) {
      row = p.pattern.row_of(t);
      column = p.pattern.column(t);
    }
    if (t - lane >= p.pattern.entries) continue;
    C result = 0;
    for (int first = 0; first < kLanes; ++first) {
      // Entry 32 / kLanes * first + lane / kLanes of the warp's.
      const int entry = 32 / kLanes * first + lane / kLanes;
      const int64_t r = __shfl_sync(kAllLanes, row, entry);
      const int64_t c = __shfl_sync(kAllLanes, column, entry);
      C sum = 0;
      if (c >= 0)
        for (int64_t j = lane % kLanes * kVec; j < p.k; j += kLanes * kVec) {
          const Vec<T, kVec> x = load_vec<kVec>(p.a + r * p.k + j);
          const Vec<T, kVec> z = load_vec<kVec>(p.b + c * p.k + j);
#pragma unroll
          for (int i = 0; i < kVec; ++i) sum += to_compute(x.v[i]) * to_compute(z.v[i]);
        }
#pragma unroll
      for (int distance = kLanes / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(kAllLanes, sum, distance);
      // The lane that the entry belongs to keeps it.
      const C found = __shfl_sync(kAllLanes, sum, lane % (32 / kLanes) * kLanes);
      if (lane / (32 / kLanes) == first) result = found;
    }
    if (t < p.pattern.entries) p.y[t] = convert<T>(result);
  }
}

template <class T, class I>
void sample_dense(const Call& c) {
  using namespace dense_inputs;
  const Arg& a = c.in[kA];
  const Arg& b = c.in[kB];
  const int64_t k = a.shape()[1];
  const DevicePattern<I> pattern(MICA_PATTERN_TEXTS("csr_sampled_matmul"), c, c.in[kCrow],
                                 c.in[kCol], b.shape()[0]);
  const Sampled<T, I> p{pattern, a.as<const T>(), b.as<const T>(), c.out[0].as<T>(), k};
  constexpr int kV = kVec16<T>;
  const bool vectors = k % kV == 0 && a.spec->aligned && b.spec->aligned;
  const auto kernel = !vectors      ? dot_entries<T, I, 1, 8>
                      : k > 16 * kV ? dot_entries<T, I, kV, 32>
                                    : dot_entries<T, I, kV, 8>;
  const int64_t most = std::max(pattern.rows, pattern.entries);
  c.encoder->launch(kernel, grid_over(most + 1, kThreads), kThreads, 0, p);
}

void run_dense(const NoParams&, const Call& c) {
  using namespace dense_inputs;
  cuda_switch_float(c.out[0].dtype(), "csr_sampled_matmul", [&]<class T>() {
    cuda_switch_index(c.in[kCrow].dtype(), [&]<class I>() { sample_dense<T, I>(c); });
  });
}

constexpr int kRowThreads = 128;
constexpr int kSlots = 2048;
constexpr int64_t kChunk = 1024;  ///< entries of a row of A that the table takes at once

template <class T, class I>
struct SampledProduct {
  DevicePattern<I> pattern, a, b;
  const T* left;
  const T* right;
  T* y;
  Compute<T>* sums;  ///< of rows that are longer than the table; y where that has their type
};

/// A block to each row: its entries of A in a table, its products by a warp to each entry of the
/// pattern.
template <class T, class I>
__global__ void __launch_bounds__(kRowThreads)
    sample_rows(const __grid_constant__ SampledProduct<T, I> p) {
  using C = Compute<T>;
  __shared__ C table[kSlots];
  __shared__ int keys[kSlots];
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = lane_number();
  const int warp = thread / 32;
  if (blockIdx.x == 0 && thread == 0) {
    p.pattern.check_ends();
    p.a.check_ends();
    p.b.check_ends();
  }
  for (int64_t r = blockIdx.x; r < p.pattern.rows; r += gridDim.x) {
    const EntryRange wanted = p.pattern.row(r);
    const EntryRange row = p.a.row(r);
    if (wanted.size() == 0) continue;
    int slots = 64;
    while (slots < kSlots && slots < 2 * row.size()) slots *= 2;
    int64_t first = row.begin;
    do {
      const int64_t end = ::min(first + kChunk, row.end);
      for (int i = thread; i < slots; i += kRowThreads) {
        keys[i] = kFreeSlot;
        table[i] = 0;
      }
      __syncthreads();
      for (int64_t e = first + lane; warp == 0 && e - lane < end; e += 32) {
        const int64_t column = e < end ? p.a.column(e) : -1;
        int slot = 0;
        int found = 0;
        if (column >= 0) slot = take_slot(keys, slots, static_cast<int>(column), found);
        add_in_turn(table, slot, column >= 0 ? to_compute(p.left[e]) : C(0), column >= 0, false);
      }
      __syncthreads();
      for (int64_t e = wanted.begin + warp; e < wanted.end; e += kRowThreads / 32) {
        const int64_t k = p.pattern.column(e);
        const EntryRange of_b = k >= 0 ? p.b.row(k) : EntryRange{0, 0};
        C sum = 0;
        for (int64_t f = of_b.begin + lane; f < of_b.end; f += 32) {
          const auto column = static_cast<int>(p.b.column(f));
          if (column < 0) continue;
          int slot = first_slot(slots, column);
          while (keys[slot] != kFreeSlot && keys[slot] != column) slot = (slot + 1) & (slots - 1);
          if (keys[slot] == column) sum += table[slot] * to_compute(p.right[f]);
        }
        sum = warp_sum(sum);
        if (lane != 0) continue;
        if (first > row.begin) sum += p.sums[e];
        if (end < row.end) {
          p.sums[e] = sum;
        } else {
          p.y[e] = convert<T>(sum);
        }
      }
      __syncthreads();
      first = end;
    } while (first < row.end);
  }
}

bool sums_apart(DType t) { return size_of(t) < 4; }

std::shared_ptr<KernelState> prepare_sums(const CsrParams&, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  if (sums_apart(s.out[0].dtype))
    state->workspace_bytes = static_cast<size_t>(s.out[0].numel()) * sizeof(float);
  return state;
}

template <class T, class I>
void sample_sparse(const CsrParams& p, const Call& c) {
  using namespace csr_sampled_product_inputs;
  const PatternTexts texts = MICA_PATTERN_TEXTS("csr_sampled_product");
  const SampledProduct<T, I> sampled{
      {texts, c, c.in[kCrow], c.in[kCol], c.in[kCrowB].numel() - 1},
      {texts, c, c.in[kCrowA], c.in[kColA], p.columns},
      {texts, c, c.in[kCrowB], c.in[kColB], p.columns},
      c.in[kA].as<const T>(),
      c.in[kB].as<const T>(),
      c.out[0].as<T>(),
      static_cast<Compute<T>*>(sums_apart(c.out[0].dtype()) ? c.workspace : c.out[0].data)};
  c.encoder->launch(sample_rows<T, I>, grid_of_rows(c, sampled.pattern.rows), kRowThreads, 0,
                    sampled);
}

void run_sparse(const CsrParams& p, const KernelState&, const Call& c) {
  using namespace csr_sampled_product_inputs;
  cuda_switch_float(c.in[kA].dtype(), "csr_sampled_product", [&]<class T>() {
    cuda_switch_index(c.in[0].dtype(), [&]<class I>() { sample_sparse<T, I>(p, c); });
  });
}

}  // namespace

KernelList csr_sampled_matmul_cuda_kernels() {
  return {kernel<supports_row_major<NoParams>, run_dense>("entries")};
}
KernelList csr_sampled_product_cuda_kernels() {
  return {kernel<supports_row_major<CsrParams>, prepare_sums, run_sparse>("tables")};
}

}  // namespace mica

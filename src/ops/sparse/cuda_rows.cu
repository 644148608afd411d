#include <algorithm>

#include "mica/ops/sparse/csr.h"
#include "mica/ops/sparse/cuda_pattern.cuh"

// Products at the entries of a pattern, and the softmax of its rows.
namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

enum SampledIn { kCrow, kCol, kA, kB };

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
  constexpr unsigned kAll = 0xffffffffU;
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
      const int64_t r = __shfl_sync(kAll, row, entry);
      const int64_t c = __shfl_sync(kAll, column, entry);
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
        sum += __shfl_xor_sync(kAll, sum, distance);
      // The lane that the entry belongs to keeps it.
      const C found = __shfl_sync(kAll, sum, lane % (32 / kLanes) * kLanes);
      if (lane / (32 / kLanes) == first) result = found;
    }
    if (t < p.pattern.entries) p.y[t] = convert<T>(result);
  }
}

template <class T, class I>
void sample(const Call& c) {
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

void run_sampled(const NoParams&, const Call& c) {
  cuda_switch_float(c.out[0].dtype(), "csr_sampled_matmul", [&]<class T>() {
    cuda_switch_index(c.in[kCrow].dtype(), [&]<class I>() { sample<T, I>(c); });
  });
}

constexpr int kHeld = 4;  ///< values of a row that a thread holds

/// A team of threads to each row: lanes of a warp, or a block.
template <int kTeam, class C, class F>
__device__ C team_reduce(C x, C zero, F combine) {
  if constexpr (kTeam > 32) {
    return block_reduce<kTeam>(x, zero, combine);
  } else {
#pragma unroll
    for (int distance = kTeam / 2; distance > 0; distance /= 2)
      x = combine(x, __shfl_xor_sync(0xffffffffU, x, distance));
    return x;
  }
}

template <class T, class I, int kTeam>
__global__ void __launch_bounds__(kThreads)
    softmax_rows(const __grid_constant__ DevicePattern<I> a, const T* x, T* y, bool log) {
  using C = Compute<T>;
  const auto lane = static_cast<int>(threadIdx.x) % kTeam;
  if (blockIdx.x == 0 && threadIdx.x == 0) a.check_ends();
  constexpr int kTeams = kThreads / kTeam;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kTeams; first < a.rows;
       first += static_cast<int64_t>(gridDim.x) * kTeams) {
    const int64_t row = first + threadIdx.x / kTeam;
    const EntryRange range = row < a.rows ? a.row(row) : EntryRange{0, 0};
    const int64_t n = range.size();
    C held[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      held[i] = lane + i * kTeam < n ? to_compute(x[range.begin + lane + i * kTeam]) : C(-INFINITY);
    /// Calls f(place, value) for this thread's values.
    const auto each = [&](auto&& f) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        if (lane + i * kTeam < n) f(range.begin + lane + i * kTeam, held[i]);
      for (int64_t e = lane + kHeld * kTeam; e < n; e += kTeam)
        f(range.begin + e, to_compute(x[range.begin + e]));
    };
    C largest = -INFINITY;
    each([&](int64_t, C v) { largest = v > largest ? v : largest; });
    largest = team_reduce<kTeam>(largest, C(-INFINITY), MaxOf{});
    C sum = 0;
    each([&](int64_t, C v) { sum += exp(v - largest); });
    sum = team_reduce<kTeam>(sum, C(0), SumOf{});
    const C shift = largest + ::log(sum);
    const C scale = C(1) / sum;
    each([&](int64_t at, C v) { y[at] = convert<T>(log ? v - shift : exp(v - largest) * scale); });
  }
}

template <class T, class I>
void softmax(const CsrSoftmaxParams& p, const Call& c) {
  const DevicePattern<I> a(MICA_PATTERN_TEXTS("csr_softmax"), c, c.in[0], c.in[1].numel());
  const int64_t mean = a.entries / std::max<int64_t>(a.rows, 1);
  const auto launch = [&](auto kernel, int64_t teams) {
    const unsigned grid = std::max(grid_over(a.rows, teams), 1U);
    c.encoder->launch(kernel, grid, kThreads, 0, a, c.in[1].as<const T>(), c.out[0].as<T>(), p.log);
  };
  constexpr int64_t kShort = 8 * kHeld;  // rows that few lanes hold
  constexpr int64_t kLong = 32 * 4 * kHeld;
  if (mean <= kShort) {
    launch(softmax_rows<T, I, 8>, kThreads / 8);
  } else if (mean <= kLong) {
    launch(softmax_rows<T, I, 32>, kThreads / 32);
  } else {
    launch(softmax_rows<T, I, kThreads>, 1);
  }
}

void run_softmax(const CsrSoftmaxParams& p, const Call& c) {
  cuda_switch_float(c.out[0].dtype(), "csr_softmax", [&]<class T>() {
    cuda_switch_index(c.in[0].dtype(), [&]<class I>() { softmax<T, I>(p, c); });
  });
}

}  // namespace

KernelList csr_sampled_matmul_cuda_kernels() {
  return {kernel<supports_row_major<NoParams>, run_sampled>("entries")};
}
KernelList csr_softmax_cuda_kernels() {
  return {kernel<supports_row_major<CsrSoftmaxParams>, run_softmax>("rows")};
}

}  // namespace mica

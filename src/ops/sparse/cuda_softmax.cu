#include <algorithm>

#include "mica/ops/sparse/csr.h"
#include "mica/ops/sparse/cuda_pattern.cuh"

// A team of threads to each row: lanes of a warp, or a block.
namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kHeld = 4;  ///< values of a row that a thread holds

/// Combines the values of a team; every thread gets the result.
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

KernelList csr_softmax_cuda_kernels() {
  return {kernel<supports_row_major<CsrSoftmaxParams>, run_softmax>("rows")};
}

}  // namespace mica

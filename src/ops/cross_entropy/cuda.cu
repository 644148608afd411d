#include <algorithm>
#include <limits>

#include "mica/op/kernel.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/cross_entropy/cuda_targets.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kMeanThreads = 1024;
constexpr int kGradThreads = 256;
constexpr int64_t kNarrowRow = 32;  ///< up to so many classes a row is read by 8 lanes, else by 32
constexpr int64_t kOneBlockSteps =
    4;  ///< rows a thread group takes before more blocks are worth a launch
constexpr int64_t kCountInBlock =
    4096;                  ///< up to so many rows each block of the gradient counts them itself
constexpr int kDepth = 4;  ///< loads of a thread under way together

/// Threads of a block of the loss. Vectors keep more values in registers.
template <int V>
inline constexpr int kLossThreads = V == 1 ? 1024 : 256;

template <int G, class C>
__device__ C lanes_sum(C x) {
  for (int offset = G / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffU, x, offset);
  return x;
}

/// The sum of exp(x - largest) over the values so far. `largest` stays finite, so that infinite
/// values give the infinite logarithm they should and no NaN.
template <class C>
struct ExpSum {
  C largest = -kMost;
  C sum = 0;

  /// Makes `to` the value that is subtracted.
  __device__ void rescale(C to) {
    sum *= exp_of(largest - to);
    largest = to;
  }

  static constexpr C kMost = std::numeric_limits<C>::max();
};

/// Of G neighbouring lanes; every lane gets it.
template <int G, class C>
__device__ void lanes_combine(ExpSum<C>& e) {
  C largest = e.largest;
  for (int offset = G / 2; offset > 0; offset /= 2)
    largest = max(largest, __shfl_xor_sync(0xffffffffU, largest, offset));
  e.rescale(largest);
  e.sum = lanes_sum<G>(e.sum);
}

/// Losses of rows that count.
template <class C>
struct LossSum {
  C sum;
  int64_t count;
};

/// Adds up what the threads of a block hold.
template <int kThreads, class C>
__device__ LossSum<C> block_total(const LossSum<C>& mine) {
  return {block_sum<kThreads>(mine.sum), block_sum<kThreads>(mine.count)};
}

/// logits (rows, classes); G lanes to a row, each reading V classes at once. A single block writes
/// the mean, each of several its part of it.
template <class T, int G, int V>
__global__ void __launch_bounds__(kLossThreads<V>)
    row_losses(const T* __restrict__ logits, CudaTargets targets, int64_t rows, int64_t classes,
               Compute<T> smoothing, Compute<T>* __restrict__ loss,
               Compute<T>* __restrict__ logsumexp, LossSum<Compute<T>>* __restrict__ parts) {
  using C = Compute<T>;
  constexpr int kThreads = kLossThreads<V>;
  constexpr int kGroups = kThreads / G;
  const int lane = threadIdx.x % G;
  const int64_t vectors = classes / V;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kGroups;
  LossSum<C> mine{C(0), 0};
  // All lanes of a warp stay in the loop, since they shuffle together.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kGroups; first < rows; first += step) {
    const int64_t row = first + threadIdx.x / G;
    const bool present = row < rows;
    const T* x = logits + (present ? row : 0) * classes;
    const int64_t target = targets[present ? row : 0];
    const bool valid = target >= 0 && target < classes;
    const C wanted = valid ? to_compute(x[target]) : static_cast<C>(NAN);
    ExpSum<C> exps;
    C total = 0;  // of the logits, for smoothing
    for (int64_t j = lane; j < vectors; j += kDepth * G) {
      Vec<T, V> v[kDepth];
#pragma unroll
      for (int k = 0; k < kDepth; ++k)
        if (j + k * G < vectors) v[k] = load_vec<V>(x + (j + k * G) * V);
      C largest = exps.largest;
#pragma unroll
      for (int k = 0; k < kDepth; ++k)
        if (j + k * G < vectors)
#pragma unroll
          for (int e = 0; e < V; ++e)
            largest = max(largest, to_compute(v[k].v[e]));  // a NaN is in the sum
      largest = min(largest, ExpSum<C>::kMost);
      exps.rescale(largest);
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        if (j + k * G >= vectors) continue;
#pragma unroll
        for (int e = 0; e < V; ++e) {
          const C value = to_compute(v[k].v[e]);
          exps.sum += exp_of(value - largest);
          total += value;
        }
      }
    }
    lanes_combine<G>(exps);
    if (smoothing != C(0)) total = lanes_sum<G>(total);
    if (present && lane == 0) {
      const C lse = exps.largest + log(exps.sum);
      logsumexp[row] = lse;
      if (target != targets.ignored) {
        C value = lse - wanted;
        if (smoothing != C(0))
          value = (C(1) - smoothing) * value + smoothing * (lse - total / static_cast<C>(classes));
        mine.sum += value;
        ++mine.count;
      }
    }
  }
  const LossSum<C> all = block_total<kThreads>(mine);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    *loss = all.sum / static_cast<C>(all.count);
  } else {
    parts[blockIdx.x] = all;
  }
}

template <class C>
__global__ void __launch_bounds__(kMeanThreads)
    mean_loss(const LossSum<C>* __restrict__ parts, int blocks, C* __restrict__ loss) {
  LossSum<C> mine{C(0), 0};
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kMeanThreads) {
    mine.sum += parts[i].sum;
    mine.count += parts[i].count;
  }
  const LossSum<C> all = block_total<kMeanThreads>(mine);
  if (threadIdx.x == 0) *loss = all.sum / static_cast<C>(all.count);
}

/// Rows that count, each part by one block of kGradThreads.
__device__ int64_t count_rows(const CudaTargets& targets, int64_t rows, unsigned part,
                              unsigned parts) {
  const int64_t step = int64_t{parts} * kGradThreads;
  int64_t count = 0;
#pragma unroll 4
  for (int64_t i = int64_t{part} * kGradThreads + threadIdx.x; i < rows; i += step)
    count += targets[i] != targets.ignored ? 1 : 0;
  return block_sum<kGradThreads>(count);
}

__global__ void __launch_bounds__(kGradThreads)
    count_targets(CudaTargets targets, int64_t rows, int64_t* counts) {
  const int64_t counted = count_rows(targets, rows, blockIdx.x, gridDim.x);
  if (threadIdx.x == 0) counts[blockIdx.x] = counted;
}

/// dlogits = dloss / count * (softmax(logits) - smoothed one-hot target), `lanes` threads to a row,
/// each with V classes at once. The count is the sum of `parts` of it; of none, it is found here.
template <class T, int V>
__global__ void __launch_bounds__(kGradThreads)
    logits_grad(const Compute<T>* __restrict__ dloss, const T* __restrict__ logits,
                CudaTargets targets, const Compute<T>* __restrict__ logsumexp, int64_t rows,
                int64_t classes, Compute<T> smoothing, int lanes,
                const int64_t* __restrict__ counts, int parts, T* __restrict__ out) {
  using C = Compute<T>;
  const int tid = static_cast<int>(threadIdx.x);
  const int64_t counted = parts > 0 ? block_sum<kGradThreads>(tid < parts ? counts[tid] : 0)
                                    : count_rows(targets, rows, 0, 1);
  const C scale = *dloss / static_cast<C>(counted);
  const C off = smoothing / static_cast<C>(classes);
  const C peak = C(1) - smoothing;
  const int64_t vectors = classes / V;
  const int groups = kGradThreads / lanes;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * groups + tid / lanes; row < rows;
       row += step) {
    const int64_t target = targets[row];
    const C lse = logsumexp[row];
    const bool counts_here = target != targets.ignored;
    const C factor = target >= 0 && target < classes ? scale : static_cast<C>(NAN);
    for (int64_t j = tid % lanes; j < vectors; j += kDepth * lanes) {
      const T* from = logits + row * classes + j * V;
      Vec<T, V> v[kDepth];
#pragma unroll
      for (int k = 0; k < kDepth; ++k)
        if (j + k * lanes < vectors) v[k] = load_vec<V>(from + k * lanes * V);
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        const int64_t at = j + k * lanes;
        if (at >= vectors) break;
        const int64_t ahead = target - at * V;
        const int here = ahead >= 0 && ahead < V ? static_cast<int>(ahead) : V;
        Vec<T, V> g;
#pragma unroll
        for (int e = 0; e < V; ++e) {
          const C wanted = e == here ? off + peak : off;
          const C value = factor * (exp_of(to_compute(v[k].v[e]) - lse) - wanted);
          g.v[e] = convert<T>(counts_here ? value : C(0));
        }
        store_vec<V>(out + row * classes + at * V, g);
      }
    }
  }
}

struct RowsState : KernelState {
  int64_t rows = 0;
  int64_t classes = 0;
  bool vectors = false;  ///< rows are whole 16-byte vectors
  unsigned grid = 1;
  int parts = 0;  ///< of the count of rows
};

bool whole_vectors(const TensorSpec& logits) {
  return logits.aligned && logits.shape[1] * static_cast<int64_t>(size_of(logits.dtype)) % 16 == 0;
}

/// Many more blocks than fit at once, so that the time in which the last ones run alone is short.
unsigned blocks_for(int64_t rows, int64_t per_block, int multiprocessors) {
  return static_cast<unsigned>(std::min(ceil_div(rows, per_block), int64_t{multiprocessors} * 64));
}

/// Calls f.operator()<G, V>().
template <class T, class F>
void switch_rows(const RowsState& s, F&& f) {
  if (s.vectors && s.classes > kNarrowRow) {
    f.template operator()<32, kVec16<T>>();
  } else if (s.classes > kNarrowRow) {
    f.template operator()<32, 1>();
  } else {
    f.template operator()<8, 1>();
  }
}

Support supports_loss(const CrossEntropyParams&, const Specs&) {
  return Support::yes().with_contiguous(0b11);
}

std::shared_ptr<RowsState> prepare_loss(const CrossEntropyParams&, const Specs& s) {
  auto state = std::make_shared<RowsState>();
  state->rows = s.in[0].shape[0];
  state->classes = s.in[0].shape[1];
  state->vectors = whole_vectors(s.in[0]);
  cuda_switch_float(s.in[0].dtype, "cross_entropy", [&]<class T>() {
    switch_rows<T>(*state, [&]<int G, int V>() {
      constexpr int64_t kGroups = kLossThreads<V> / G;
      if (state->rows <= kGroups * kOneBlockSteps) return;
      const Encoder* encoder = runtime(DeviceKind::cuda).encoder(s.in[0].device.index);
      state->grid = blocks_for(state->rows, kGroups, encoder->multiprocessors());
      state->workspace_bytes = state->grid * sizeof(LossSum<Compute<T>>);
    });
  });
  return state;
}

void run_loss(const CrossEntropyParams& p, const RowsState& s, const Call& c) {
  const CudaTargets targets{
      .data = c.in[1].data, .dtype = c.in[1].dtype(), .ignored = p.ignore_index};
  cuda_switch_float(c.in[0].dtype(), "cross_entropy", [&]<class T>() {
    using C = Compute<T>;
    C* loss = c.out[0].as<C>();
    auto* parts = static_cast<LossSum<C>*>(c.workspace);
    switch_rows<T>(s, [&]<int G, int V>() {
      c.encoder->launch(row_losses<T, G, V>, s.grid, kLossThreads<V>, 0, c.in[0].as<const T>(),
                        targets, s.rows, s.classes, static_cast<C>(p.label_smoothing), loss,
                        c.out[1].as<C>(), parts);
    });
    if (s.grid > 1)
      c.encoder->launch(mean_loss<C>, 1, kMeanThreads, 0, parts, static_cast<int>(s.grid), loss);
  });
}

// Inputs of the gradient: dloss, logits, target, logsumexp.
Support supports_grad(const CrossEntropyParams&, const Specs&) {
  return Support::yes().with_contiguous(0b1110);
}

std::shared_ptr<RowsState> prepare_grad(const CrossEntropyParams&, const Specs& s) {
  auto state = std::make_shared<RowsState>();
  state->rows = s.in[1].shape[0];
  state->classes = s.in[1].shape[1];
  state->vectors = whole_vectors(s.in[1]) && s.out[0].aligned;
  if (state->rows > kCountInBlock) {
    // A thread of the gradient reads one part.
    state->parts = static_cast<int>(
        std::min<int64_t>(kGradThreads, ceil_div<int64_t>(state->rows, kGradThreads * 8)));
    state->workspace_bytes = static_cast<size_t>(state->parts) * sizeof(int64_t);
  }
  return state;
}

void run_grad(const CrossEntropyParams& p, const RowsState& s, const Call& c) {
  const CudaTargets targets{
      .data = c.in[2].data, .dtype = c.in[2].dtype(), .ignored = p.ignore_index};
  if (s.rows == 0) return;
  auto* counts = static_cast<int64_t*>(c.workspace);
  c.encoder->launch(count_targets, static_cast<unsigned>(s.parts), kGradThreads, 0, targets, s.rows,
                    counts);
  cuda_switch_float(c.in[1].dtype(), "cross_entropy_grad", [&]<class T>() {
    using C = Compute<T>;
    const auto launch = [&](auto kernel, int64_t vectors) {
      // Up to a warp a lane for each vector, beyond it one for kDepth of them.
      int lanes = 1;
      while (lanes < kGradThreads && lanes < vectors && (lanes < 32 || lanes * kDepth < vectors))
        lanes *= 2;
      const unsigned grid = blocks_for(s.rows, kGradThreads / lanes, c.encoder->multiprocessors());
      c.encoder->launch(kernel, grid, kGradThreads, 0, c.in[0].as<const C>(), c.in[1].as<const T>(),
                        targets, c.in[3].as<const C>(), s.rows, s.classes,
                        static_cast<C>(p.label_smoothing), lanes, counts, s.parts,
                        c.out[0].as<T>());
    };
    if (s.vectors) {
      launch(logits_grad<T, kVec16<T>>, s.classes / kVec16<T>);
    } else {
      launch(logits_grad<T, 1>, s.classes);
    }
  });
}

}  // namespace

KernelList cross_entropy_cuda_kernels() {
  return {kernel<supports_loss, prepare_loss, run_loss>("row_groups")};
}
KernelList cross_entropy_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare_grad, run_grad>("row_groups")};
}

}  // namespace mica

#include "mica/op/kernel.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 1024;      ///< of the loss
constexpr int kGradThreads = 256;   ///< of its gradient
constexpr int64_t kNarrowRow = 32;  ///< up to so many classes a row is read by 8 lanes, else by 32
constexpr int64_t kOneBlockSteps =
    4;  ///< rows a thread group takes before more blocks are worth a launch
constexpr int64_t kCountInBlock =
    4096;  ///< up to so many rows each block of the gradient counts them itself

/// Target of a row; i64, i32 or u8.
struct Targets {
  const void* data;
  DType dtype;
  int64_t ignored;

  __device__ int64_t operator[](int64_t i) const {
    if (dtype == DType::i64) return static_cast<const int64_t*>(data)[i];
    if (dtype == DType::i32) return static_cast<const int32_t*>(data)[i];
    return static_cast<const uint8_t*>(data)[i];
  }
};

/// Reductions among G neighbouring lanes.
template <int G, class C>
__device__ C lanes_sum(C x) {
  for (int offset = G / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffU, x, offset);
  return x;
}
template <int G, class C>
__device__ C lanes_max(C x) {
  for (int offset = G / 2; offset > 0; offset /= 2) {
    const C y = __shfl_xor_sync(0xffffffffU, x, offset);
    x = y > x || isnan(y) ? y : x;
  }
  return x;
}

/// The mean of the rows' losses over those that count, by one block of kThreads.
template <class C>
__device__ void write_mean(const C* losses, const Targets& targets, int64_t rows, C* loss) {
  C sum = 0;
  int64_t count = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kThreads) {
    if (targets[i] == targets.ignored) continue;
    sum += losses[i];
    ++count;
  }
  sum = block_sum<kThreads>(sum);
  count = block_sum<kThreads>(count);
  if (threadIdx.x == 0) *loss = sum / static_cast<C>(count);
}

/// logits (rows, classes); G lanes to a row. A single block also writes the mean.
template <class T, int G>
__global__ void __launch_bounds__(kThreads)
    row_losses(const T* logits, Targets targets, int64_t rows, int64_t classes,
               Compute<T> smoothing, Compute<T>* loss, Compute<T>* logsumexp, Compute<T>* losses) {
  using C = Compute<T>;
  constexpr int kGroups = kThreads / G;
  const int lane = threadIdx.x % G;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kGroups;
  // All lanes of a warp stay in the loop, since they shuffle together.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kGroups; first < rows; first += step) {
    const int64_t row = first + threadIdx.x / G;
    const bool present = row < rows;
    const T* x = logits + (present ? row : 0) * classes;
    C largest = to_compute(x[0]);
    for (int64_t j = lane; j < classes; j += G) {
      const C v = to_compute(x[j]);
      largest = v > largest || isnan(v) ? v : largest;
    }
    largest = lanes_max<G>(largest);
    const C shift = isinf(largest) ? C(0) : largest;
    C sum = 0;
    C total = 0;  // of the logits, for smoothing
    for (int64_t j = lane; j < classes; j += G) {
      const C v = to_compute(x[j]);
      sum += exp(v - shift);
      total += v;
    }
    sum = lanes_sum<G>(sum);
    if (smoothing != C(0)) total = lanes_sum<G>(total);
    if (present && lane == 0) {
      const C lse = shift + log(sum);
      logsumexp[row] = lse;
      const int64_t target = targets[row];
      C value = static_cast<C>(NAN);
      if (target == targets.ignored) {
        value = 0;
      } else if (target >= 0 && target < classes) {
        value = lse - to_compute(x[target]);
        if (smoothing != C(0))
          value = (C(1) - smoothing) * value + smoothing * (lse - total / static_cast<C>(classes));
      }
      losses[row] = value;
    }
  }
  if (gridDim.x == 1) {
    __syncthreads();
    write_mean(losses, targets, rows, loss);
  }
}

template <class C>
__global__ void __launch_bounds__(kThreads)
    mean_loss(const C* losses, Targets targets, int64_t rows, C* loss) {
  write_mean(losses, targets, rows, loss);
}

/// Rows that count, by one block.
template <int kBlock>
__device__ int64_t count_rows(const Targets& targets, int64_t rows) {
  int64_t count = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kBlock)
    count += targets[i] != targets.ignored ? 1 : 0;
  return block_sum<kBlock>(count);
}

__global__ void __launch_bounds__(kThreads)
    count_targets(Targets targets, int64_t rows, int64_t* count) {
  const int64_t counted = count_rows<kThreads>(targets, rows);
  if (threadIdx.x == 0) *count = counted;
}

/// dlogits = dloss / count * (softmax(logits) - smoothed one-hot target). `count` may be null.
template <class T>
__global__ void __launch_bounds__(kGradThreads)
    logits_grad(const Compute<T>* dloss, const T* logits, Targets targets,
                const Compute<T>* logsumexp, int64_t rows, int64_t classes, Divider by_classes,
                bool narrow, Compute<T> smoothing, const int64_t* count, T* out) {
  using C = Compute<T>;
  const int64_t counted = count ? *count : count_rows<kGradThreads>(targets, rows);
  const C scale = *dloss / static_cast<C>(counted);
  const C off = smoothing / static_cast<C>(classes);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kGradThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kGradThreads + threadIdx.x;
       i < rows * classes; i += step) {
    const int64_t row = narrow ? by_classes.quotient(static_cast<uint32_t>(i)) : i / classes;
    const int64_t target = targets[row];
    C g = 0;
    if (target != targets.ignored) {
      const C wanted = off + (i - row * classes == target ? C(1) - smoothing : C(0));
      g = target >= 0 && target < classes
              ? scale * (exp(to_compute(logits[i]) - logsumexp[row]) - wanted)
              : static_cast<C>(NAN);
    }
    out[i] = convert<T>(g);
  }
}

struct RowsState : KernelState {
  int64_t rows = 0;
  int64_t classes = 0;
};

Support supports_loss(const CrossEntropyParams&, const Specs&) {
  return Support::yes().with_contiguous(0b11);
}

std::shared_ptr<RowsState> prepare_loss(const CrossEntropyParams&, const Specs& s) {
  auto state = std::make_shared<RowsState>();
  state->rows = s.in[0].shape[0];
  state->classes = s.in[0].shape[1];
  state->workspace_bytes = static_cast<size_t>(state->rows) * size_of(s.out[0].dtype);
  return state;
}

template <class T, int G>
void launch_loss(const CrossEntropyParams& p, const RowsState& s, const Call& c) {
  using C = Compute<T>;
  const Targets targets{.data = c.in[1].data, .dtype = c.in[1].dtype(), .ignored = p.ignore_index};
  C* loss = c.out[0].as<C>();
  auto* losses = static_cast<C*>(c.workspace);
  constexpr int64_t kGroups = kThreads / G;
  const bool one_block = s.rows <= kGroups * kOneBlockSteps;
  const unsigned grid = one_block ? 1 : grid_for(s.rows, kGroups, c.encoder->multiprocessors());
  c.encoder->launch(row_losses<T, G>, grid, kThreads, 0, c.in[0].as<const T>(), targets, s.rows,
                    s.classes, static_cast<C>(p.label_smoothing), loss, c.out[1].as<C>(), losses);
  if (grid > 1) c.encoder->launch(mean_loss<C>, 1, kThreads, 0, losses, targets, s.rows, loss);
}

void run_loss(const CrossEntropyParams& p, const RowsState& s, const Call& c) {
  cuda_switch_float(c.in[0].dtype(), "cross_entropy", [&]<class T>() {
    if (s.classes <= kNarrowRow) {
      launch_loss<T, 8>(p, s, c);
    } else {
      launch_loss<T, 32>(p, s, c);
    }
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
  if (state->rows > kCountInBlock) state->workspace_bytes = sizeof(int64_t);
  return state;
}

void run_grad(const CrossEntropyParams& p, const RowsState& s, const Call& c) {
  const Targets targets{.data = c.in[2].data, .dtype = c.in[2].dtype(), .ignored = p.ignore_index};
  const int64_t n = s.rows * s.classes;
  if (n == 0) return;
  int64_t* count = nullptr;
  if (s.rows > kCountInBlock) {
    count = static_cast<int64_t*>(c.workspace);
    c.encoder->launch(count_targets, 1, kThreads, 0, targets, s.rows, count);
  }
  const bool narrow = n < (int64_t{1} << 31);
  const Divider by_classes(narrow ? static_cast<uint32_t>(s.classes) : 1);
  const unsigned grid = grid_for(n, kGradThreads, c.encoder->multiprocessors());
  cuda_switch_float(c.in[1].dtype(), "cross_entropy_grad", [&]<class T>() {
    using C = Compute<T>;
    c.encoder->launch(logits_grad<T>, grid, kGradThreads, 0, c.in[0].as<const C>(),
                      c.in[1].as<const T>(), targets, c.in[3].as<const C>(), s.rows, s.classes,
                      by_classes, narrow, static_cast<C>(p.label_smoothing), count,
                      c.out[0].as<T>());
  });
}

}  // namespace

KernelList cross_entropy_cuda_kernels() {
  return {kernel<supports_loss, prepare_loss, run_loss>("row_groups")};
}
KernelList cross_entropy_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare_grad, run_grad>("elementwise")};
}

}  // namespace mica

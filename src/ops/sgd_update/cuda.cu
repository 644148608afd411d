#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/sgd_update/sgd_update.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kVectors = 2;  ///< of a thread, 16 bytes each

template <class T>
inline constexpr int64_t kChunk = int64_t{kThreads} * kVectors * kVec16<T>;  ///< of a block

// The tensors of a launch are kernel parameters: 4 KB of them for a few tensors, close to the most
// there may be, 32,764 bytes, for many.
constexpr int kFew = 96;
constexpr int kMany = 896;

template <class T, int kMost>
struct Group {
  struct Entry {
    T* param;
    const T* grad;
    T* momentum;
    int64_t n;
  };
  int tensors = 0;
  unsigned end[kMost];  ///< one past the last block of each tensor
  Entry entries[kMost];
};

template <class C>
struct Factors {
  C momentum, fresh, decay;
  bool nesterov;
};

template <class T, int kMost, bool kMomentum>
__global__ void __launch_bounds__(kThreads)
    update(const __grid_constant__ Group<T, kMost> group, const float* lr, Factors<Compute<T>> f) {
  using C = Compute<T>;
  constexpr int kV = kVec16<T>;
  int k = 0;  // the first tensor that ends after this block
  for (int last = group.tensors - 1; k < last;) {
    const int middle = (k + last) / 2;
    if (blockIdx.x < group.end[middle]) {
      last = middle;
    } else {
      k = middle + 1;
    }
  }
  const typename Group<T, kMost>::Entry e = group.entries[k];
  const unsigned block = blockIdx.x - (k == 0 ? 0 : group.end[k - 1]);
  const bool aligned =
      is_aligned(e.param, 16) && is_aligned(e.grad, 16) && is_aligned(e.momentum, 16);
  const auto read = [&](const T* from, int64_t i) {
    if (aligned && i + kV <= e.n) return load_vec<kV>(from + i);
    Vec<T, kV> x{};
#pragma unroll
    for (int j = 0; j < kV; ++j)
      if (i + j < e.n) x.v[j] = from[i + j];
    return x;
  };
  const auto write = [&](T* to, int64_t i, const Vec<T, kV>& x) {
    if (aligned && i + kV <= e.n) return store_vec<kV>(to + i, x);
#pragma unroll
    for (int j = 0; j < kV; ++j)
      if (i + j < e.n) to[i + j] = x.v[j];
  };
  Vec<T, kV> param[kVectors], grad[kVectors], momentum[kVectors];
  const auto place = [&](int v) {
    return block * kChunk<T> + (v * kThreads + static_cast<int64_t>(threadIdx.x)) * kV;
  };
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    param[v] = read(e.param, place(v));
    grad[v] = read(e.grad, place(v));
    if constexpr (kMomentum) momentum[v] = read(e.momentum, place(v));
  }
  const C rate = static_cast<C>(*lr);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int j = 0; j < kV; ++j) {
      const C p = to_compute(param[v].v[j]);
      const C g = to_compute(grad[v].v[j]) + f.decay * p;
      C direction = g;
      if constexpr (kMomentum) {
        const C m = f.momentum * to_compute(momentum[v].v[j]) + f.fresh * g;
        momentum[v].v[j] = convert<T>(m);
        direction = f.nesterov ? g + f.momentum * m : m;
      }
      param[v].v[j] = convert<T>(p - rate * direction);
    }
    write(e.param, place(v), param[v]);
    if constexpr (kMomentum) write(e.momentum, place(v), momentum[v]);
  }
}

Support supports(const SgdParams& p, const Specs& s) {
  const auto n = static_cast<size_t>(p.count);
  for (size_t i = 1; i < s.in.size(); ++i) {
    const TensorSpec& param = s.in[1 + (i - 1) % n];
    if (!s.in[i].lies_like(param))
      return Support::no("a gradient is laid out otherwise than its parameter");
    if (param.dtype != s.in[1].dtype) return Support::no("the parameters differ in dtype");
  }
  return Support::yes();
}

template <class T, int kMost>
void run_as(const SgdParams& p, const Call& c) {
  using C = Compute<T>;
  const auto count = static_cast<size_t>(p.count);
  const Factors<C> factors{.momentum = static_cast<C>(p.momentum),
                           .fresh = static_cast<C>(1 - p.dampening),
                           .decay = static_cast<C>(p.weight_decay),
                           .nesterov = p.nesterov};
  const bool momentum = p.momentum != 0;
  size_t k = 1;
  while (k <= count) {
    Group<T, kMost> group;
    unsigned blocks = 0;
    for (; k <= count && group.tensors < kMost; ++k) {
      const int64_t n = c.in[k].numel();
      if (n == 0) continue;
      group.entries[group.tensors] = {.param = c.in[k].as<T>(),
                                      .grad = c.in[k + count].as<const T>(),
                                      .momentum = momentum ? c.in[k + 2 * count].as<T>() : nullptr,
                                      .n = n};
      blocks += static_cast<unsigned>(ceil_div(n, kChunk<T>));
      group.end[group.tensors++] = blocks;
    }
    c.encoder->launch(momentum ? update<T, kMost, true> : update<T, kMost, false>, blocks, kThreads,
                      0, group, c.in[0].as<const float>(), factors);
  }
}

void run(const SgdParams& p, const Call& c) {
  cuda_switch_float(c.in[1].dtype(), "sgd_update", [&]<class T>() {
    p.count <= kFew ? run_as<T, kFew>(p, c) : run_as<T, kMany>(p, c);
  });
}

}  // namespace

KernelList sgd_update_cuda_kernels() { return {kernel<supports, run>("multi_tensor")}; }

}  // namespace mica

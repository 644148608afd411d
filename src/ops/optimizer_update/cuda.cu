#include "mica/op/kernel.h"
#include "mica/ops/optimizer_update/functors.h"
#include "mica/runtime/cuda/ahead.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kVectors = 2;   ///< of a thread, 16 bytes each
constexpr size_t kFirst = 2;  ///< inputs before the lists

template <class T>
inline constexpr int64_t kChunk = int64_t{kThreads} * kVectors * kVec16<T>;  ///< of a block

// The tensors of a launch are kernel parameters: some KB of them for a few tensors, close to the
// most there may be, 32,764 bytes, for many.
constexpr int kFew = 96;
constexpr size_t kMostBytes = 32764 - 256;

template <class T, int kStates>
struct Entry {
  T* param;
  const T* grad;
  T* states[kStates + 1];  ///< null where there is no state
  int64_t n;
};
template <class T, int kStates>
inline constexpr int kMany =
    static_cast<int>(kMostBytes / (sizeof(Entry<T, kStates>) + sizeof(unsigned)));

template <class T, int kStates, int kMost>
struct Group {
  int tensors = 0;
  unsigned end[kMost];  ///< one past the last block of each tensor
  Entry<T, kStates> entries[kMost];
};

/// The numbers in device memory that a step depends on.
struct Scalars {
  const void* scalar;
  const int64_t* step;
  bool wide;  ///< the scalar is f64

  __device__ double value() const {
    if (!scalar) return 0;
    return wide ? *static_cast<const double*>(scalar)
                : static_cast<double>(*static_cast<const float*>(scalar));
  }
};

template <class Step, class T, int kMost, class Params>
__global__ void __launch_bounds__(kThreads)
    take_step(const __grid_constant__ Group<T, Step::kStates, kMost> group, Scalars scalars,
              const __grid_constant__ Params params) {
  using C = Compute<T>;
  constexpr int kV = kVec16<T>;
  constexpr int kStates = Step::kStates;
  int k = 0;  // the first tensor that ends after this block
  for (int last = group.tensors - 1; k < last;) {
    const int middle = (k + last) / 2;
    if (blockIdx.x < group.end[middle]) {
      last = middle;
    } else {
      k = middle + 1;
    }
  }
  wait_for_inputs();
  const Entry<T, kStates> e = group.entries[k];
  const unsigned block = blockIdx.x - (k == 0 ? 0 : group.end[k - 1]);
  bool aligned = is_aligned(e.param, 16) && is_aligned(e.grad, 16);
#pragma unroll
  for (int s = 0; s < kStates; ++s) aligned = aligned && is_aligned(e.states[s], 16);
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
  const auto place = [&](int v) {
    return block * kChunk<T> + (v * kThreads + static_cast<int64_t>(threadIdx.x)) * kV;
  };
  Vec<T, kV> param[kVectors], grad[kVectors], state[kVectors][kStates + 1];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if constexpr (Step::kReads) param[v] = read(e.param, place(v));
    grad[v] = read(e.grad, place(v));
#pragma unroll
    for (int s = 0; s < kStates; ++s) state[v][s] = read(e.states[s], place(v));
  }
  // One thread computes the constants, powers among them, while the loads are under way.
  __shared__ typename Step::template Factors<C> factors;
  if (threadIdx.x == 0)
    factors = Step::template factors<C>(params, scalars.value(), scalars.step ? *scalars.step : 0);
  __syncthreads();
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int j = 0; j < kV; ++j) {
      C x = 0;
      if constexpr (Step::kReads) x = to_compute(param[v].v[j]);
      C states[kStates + 1];
#pragma unroll
      for (int s = 0; s < kStates; ++s) states[s] = to_compute(state[v][s].v[j]);
      Step::apply(factors, x, to_compute(grad[v].v[j]), states);
      param[v].v[j] = convert<T>(x);
#pragma unroll
      for (int s = 0; s < kStates; ++s) state[v][s].v[j] = convert<T>(states[s]);
    }
    write(e.param, place(v), param[v]);
#pragma unroll
    for (int s = 0; s < kStates; ++s) write(e.states[s], place(v), state[v][s]);
  }
}

template <class O>
Support supports(const typename O::Params& p, const Specs& s) {
  for (size_t i = kFirst; i < s.in.size(); ++i)
    if (!s.in[i].lies_like(s.in[kFirst + (i - kFirst) % static_cast<size_t>(p.count)]))
      return Support::no("a gradient is laid out otherwise than its parameter");
  return Support::yes();
}

/// The parameters of type T; an empty grid launches nothing.
template <class Step, class T, int kMost, class Params>
void run_as(const Params& p, const Call& c, DType dtype) {
  const auto count = static_cast<size_t>(p.count);
  const Scalars scalars{.scalar = c.in[0].data,
                        .step = c.in[1].as<const int64_t>(),
                        .wide = c.in[0].dtype() == DType::f64};
  size_t k = 0;
  while (k < count) {
    Group<T, Step::kStates, kMost> group;
    unsigned blocks = 0;
    for (; k < count && group.tensors < kMost; ++k) {
      const Arg* at = &c.in[kFirst + k];
      const int64_t n = at->numel();
      if (n == 0 || at->dtype() != dtype) continue;
      Entry<T, Step::kStates>& e = group.entries[group.tensors];
      e = {.param = at[0].as<T>(), .grad = at[count].as<const T>(), .states = {}, .n = n};
      for (size_t s = 0; s != Step::kStates; ++s) e.states[s] = at[(2 + s) * count].as<T>();
      blocks += static_cast<unsigned>(ceil_div(n, kChunk<T>));
      group.end[group.tensors++] = blocks;
    }
    const LaunchAhead ahead;
    c.encoder->launch(take_step<Step, T, kMost, Params>, blocks, kThreads, 0, group, scalars, p);
  }
}

template <class O>
void run(const typename O::Params& p, const Call& c) {
  O::visit(p, [&]<class Step>() {
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
      cuda_switch_float(dtype, O::kName, [&]<class T>() {
        p.count <= kFew ? run_as<Step, T, kFew>(p, c, dtype)
                        : run_as<Step, T, kMany<T, Step::kStates>>(p, c, dtype);
      });
  });
}

template <class O>
KernelList kernels() {
  return {kernel<supports<O>, run<O>>("multi_tensor")};
}

}  // namespace

KernelList sgd_update_cuda_kernels() { return kernels<update::Sgd>(); }
KernelList adam_update_cuda_kernels() { return kernels<update::Adam>(); }
KernelList rmsprop_update_cuda_kernels() { return kernels<update::Rmsprop>(); }
KernelList adagrad_update_cuda_kernels() { return kernels<update::Adagrad>(); }
KernelList clip_by_norm_cuda_kernels() { return kernels<update::ClipNorm>(); }
KernelList clip_by_value_cuda_kernels() { return kernels<update::ClipValue>(); }

}  // namespace mica

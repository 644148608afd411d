#include "mica/core/philox.h"
#include "mica/op/kernel.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/strided.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

/// `y` is a relu's result, or any positive number.
template <class T>
__device__ T drop(T x, T y, unsigned int word, float threshold, float scale) {
  using C = Compute<T>;
  const bool kept = unit_float(word) >= threshold && to_compute(y) > C(0);
  return convert<T>(kept ? to_compute(x) * static_cast<C>(scale) : C(0));
}

/// Row-major tensors: a thread takes the four elements of one random block, as one access where
/// all are `aligned`. counter: (seed, first block); relu: null, or where results are 0 if not
/// positive.
template <class T>
__global__ void __launch_bounds__(kThreads)
    drop_dense(T* out, const T* in, const T* relu, int64_t n, bool aligned, const int64_t* counter,
               float threshold, float scale) {
  wait_for_inputs();
  const auto seed = static_cast<unsigned long long>(counter[0]);
  const auto first = static_cast<unsigned long long>(counter[1]);
  const T one = convert<T>(Compute<T>(1));
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i * 4 < n;
       i += step) {
    const Philox4 block = philox(seed, first + static_cast<unsigned long long>(i));
    if (aligned && i * 4 + 4 <= n) {
      Vec<T, 4> x = load_vec<4>(in + i * 4);
      const Vec<T, 4> y = relu ? load_vec<4>(relu + i * 4) : Vec<T, 4>{one, one, one, one};
#pragma unroll
      for (int lane = 0; lane < 4; ++lane)
        x.v[lane] = drop(x.v[lane], y.v[lane], block.v[lane], threshold, scale);
      store_vec<4>(out + i * 4, x);
      continue;
    }
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const int64_t at = i * 4 + lane;
      if (at < n) out[at] = drop(in[at], relu ? relu[at] : one, block.v[lane], threshold, scale);
    }
  }
}

/// Any strides: the operands of the loop are out, in, relu and the row-major index, which chooses
/// the number.
template <class T>
__global__ void __launch_bounds__(kThreads)
    drop_strided(const __grid_constant__ StridedLoop<4> loop, T* out, const T* in, const T* relu,
                 const int64_t* counter, float threshold, float scale) {
  wait_for_inputs();
  const auto seed = static_cast<unsigned long long>(counter[0]);
  const auto first = static_cast<unsigned long long>(counter[1]);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < loop.count;
       i += step) {
    int64_t at[4];
    loop.offsets(i, at);
    const Philox4 block = philox(seed, first + static_cast<unsigned long long>(at[3] / 4));
    const auto lane = static_cast<int>(at[3] % 4);
    const unsigned int word = lane == 0   ? block.v[0]
                              : lane == 1 ? block.v[1]
                              : lane == 2 ? block.v[2]
                                          : block.v[3];
    const T y = relu ? relu[at[2]] : convert<T>(Compute<T>(1));
    out[at[0]] = drop(in[at[1]], y, word, threshold, scale);
  }
}

struct DropoutState : KernelState {
  bool dense = false;
  StridedLoop<4> loop;
};

std::shared_ptr<DropoutState> prepare(const DropoutParams&, const Specs& s) {
  auto state = std::make_shared<DropoutState>();
  const TensorSpec& relu = s.in[2].defined ? s.in[2] : s.in[0];
  state->dense = s.in[0].is_contiguous() && s.out[0].is_contiguous() && relu.is_contiguous();
  const Shape& shape = s.out[0].shape;
  state->loop = strided_loop<4>(
      shape, {s.out[0].strides, s.in[0].strides, relu.strides, contiguous_strides(shape)});
  return state;
}

void run(const DropoutParams& p, const DropoutState& state, const Call& c) {
  const auto threshold = static_cast<float>(p.p);
  const auto scale = static_cast<float>(1.0 / (1.0 - p.p));
  const int64_t n = c.out[0].numel();
  const auto* counter = c.in[1].as<const int64_t>();
  const ProgrammaticLaunch overlap;
  cuda_switch_float(c.in[0].dtype(), "dropout", [&]<class T>() {
    T* out = c.out[0].as<T>();
    const T* in = c.in[0].as<const T>();
    const T* relu = c.in[2].defined() ? c.in[2].as<const T>() : nullptr;
    if (state.dense) {
      const bool aligned = is_aligned(out, 4 * sizeof(T)) && is_aligned(in, 4 * sizeof(T)) &&
                           is_aligned(relu, 4 * sizeof(T));
      c.encoder->launch(drop_dense<T>, grid_over(n, kThreads * 4), kThreads, 0, out, in, relu, n,
                        aligned, counter, threshold, scale);
    } else {
      c.encoder->launch(drop_strided<T>, grid_over(n, kThreads), kThreads, 0, state.loop, out, in,
                        relu, counter, threshold, scale);
    }
  });
}

}  // namespace

KernelList dropout_cuda_kernels() {
  return {kernel<supports_all<DropoutParams>, prepare, run>("counter")};
}

}  // namespace mica

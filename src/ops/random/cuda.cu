#include "mica/core/philox.h"
#include "mica/core/switch_bytes.h"
#include "mica/op/kernel.h"
#include "mica/ops/random/random.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

__global__ void take(int64_t* state, int64_t* out, int64_t count) {
  out[0] = state[0];
  // Several streams may draw at once.
  out[1] = static_cast<int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(state + 1),
                                          static_cast<unsigned long long>(count)));
}

void run_take(const RngTakeParams& p, const Call& c) {
  c.encoder->launch(take, 1, 1, 0, c.in[0].as<int64_t>(), c.out[0].as<int64_t>(), p.count);
}

/// low + (high - low) u, each step rounded as on the CPU.
struct Uniform {
  template <class C>
  __device__ static void make(const Philox4& block, double a, double b, C (&out)[4]) {
    const C low = static_cast<C>(a);
    const C range = static_cast<C>(b) - low;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) out[lane] = scaled(low, range, unit_float(block.v[lane]));
  }
  __device__ static float scaled(float low, float range, float u) {
    return __fadd_rn(low, __fmul_rn(range, u));
  }
  __device__ static double scaled(double low, double range, float u) {
    return __dadd_rn(low, __dmul_rn(range, static_cast<double>(u)));
  }
};

/// Box-Muller on pairs of lanes, in double as on the CPU.
struct Normal {
  template <class C>
  __device__ static void make(const Philox4& block, double a, double b, C (&out)[4]) {
#pragma unroll
    for (int pair = 0; pair < 4; pair += 2) {
      const double r = sqrt(-2.0 * log(1.0 - static_cast<double>(unit_float(block.v[pair]))));
      double sine, cosine;
      sincospi(2.0 * static_cast<double>(unit_float(block.v[pair + 1])), &sine, &cosine);
      out[pair] = static_cast<C>(a + b * (r * cosine));
      out[pair + 1] = static_cast<C>(a + b * (r * sine));
    }
  }
};

/// Element i takes lane i % 4 of block first + i / 4; a thread makes the four elements of a block.
/// counter: (seed, first).
template <class Distribution, class T>
__global__ void __launch_bounds__(kThreads)
    draw(T* out, int64_t n, const int64_t* counter, double a, double b) {
  const auto seed = static_cast<unsigned long long>(counter[0]);
  const auto first = static_cast<unsigned long long>(counter[1]);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i * 4 < n;
       i += step) {
    Compute<T> values[4];
    Distribution::make(philox(seed, first + static_cast<unsigned long long>(i)), a, b, values);
#pragma unroll
    for (int lane = 0; lane < 4; ++lane)
      if (i * 4 + lane < n) out[i * 4 + lane] = convert<T>(values[lane]);
  }
}

template <class Distribution>
void run_draw(const RandomParams& p, const Call& c) {
  const int64_t n = c.out[0].numel();
  const unsigned grid = grid_over(n, kThreads * 4);
  cuda_switch_float(p.dtype, "random", [&]<class T>() {
    c.encoder->launch(draw<Distribution, T>, grid, kThreads, 0, c.out[0].as<T>(), n,
                      c.in[0].as<const int64_t>(), p.a, p.b);
  });
}

/// low + floor(word * range / 2^32), of lanes and blocks as above.
template <class T>
__global__ void __launch_bounds__(kThreads)
    draw_integers(T* out, int64_t n, const int64_t* counter, int64_t low, uint64_t range) {
  const auto seed = static_cast<unsigned long long>(counter[0]);
  const auto first = static_cast<unsigned long long>(counter[1]);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i * 4 < n;
       i += step) {
    const Philox4 block = philox(seed, first + static_cast<unsigned long long>(i));
#pragma unroll
    for (int lane = 0; lane < 4; ++lane)
      if (i * 4 + lane < n)
        out[i * 4 + lane] = static_cast<T>(low + static_cast<int64_t>(block.v[lane] * range >> 32));
  }
}

void run_randint(const RandintParams& p, const Call& c) {
  const int64_t n = c.out[0].numel();
  const unsigned grid = grid_for(n, kThreads * 4, c.encoder->multiprocessors());
  const auto range = static_cast<uint64_t>(p.high) - static_cast<uint64_t>(p.low);
  const auto launch = [&]<class T>() {
    c.encoder->launch(draw_integers<T>, grid, kThreads, 0, c.out[0].as<T>(), n,
                      c.in[0].as<const int64_t>(), p.low, range);
  };
  switch_bytes(size_of(p.dtype), launch);
}

}  // namespace

KernelList rng_take_cuda_kernels() {
  return {kernel<supports_all<RngTakeParams>, run_take>("single_thread")};
}
KernelList uniform_cuda_kernels() {
  return {kernel<supports_all<RandomParams>, run_draw<Uniform>>("counter")};
}
KernelList normal_cuda_kernels() {
  return {kernel<supports_all<RandomParams>, run_draw<Normal>>("counter")};
}
KernelList randint_cuda_kernels() {
  return {kernel<supports_all<RandintParams>, run_randint>("counter")};
}

}  // namespace mica

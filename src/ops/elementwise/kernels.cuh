#pragma once

// CUDA kernels of an elementwise op from its functor.
#include <memory>

#include "mica/op/kernel.h"
#include "mica/ops/elementwise/takes.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/strided.cuh"

namespace mica::cuda {

inline constexpr int kElementThreads = 128;

/// Input pointers of a function of Arity operands.
template <class T, int Arity>
struct Inputs {
  const T* data[Arity];
};

/// A value in the type it is computed in; bytes as integers, as C++ has it.
template <class T>
__device__ auto widen(T x) {
  if constexpr (sizeof(T) == 1) {
    return static_cast<int>(x);
  } else {
    return to_compute(x);
  }
}

template <class F, class T, size_t... I>
__device__ auto apply(const F& f, const T* x, std::index_sequence<I...>) {
  return f(widen(x[I])...);
}

/// The type `widen` gives.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 1, int, Compute<T>>;

/// What F gives for operands of type T: T itself, or bool. Said without the device's functions,
/// for the host has to come to the same answer.
template <class F, class T, int Arity>
struct ResultOfCall {
  template <size_t... I>
  static auto call(std::index_sequence<I...>)
      -> decltype(std::declval<const F&>()((static_cast<void>(I), std::declval<Wide<T>>())...));
  using type =
      std::conditional_t<std::is_same_v<decltype(call(std::make_index_sequence<Arity>())), bool>,
                         bool, T>;
};
template <class F, class T, int Arity>
using ResultOf = typename ResultOfCall<F, T, Arity>::type;

template <int Arity, class F, class T>
__device__ ResultOf<F, T, Arity> apply(const F& f, const T (&x)[Arity]) {
  return convert<ResultOf<F, T, Arity>>(apply(f, x, std::make_index_sequence<Arity>()));
}

/// out = f(in…), V elements per thread: a loop over more would cost functions of many instructions
/// more than it saves.
template <class F, class T, class Out, int Arity, int V>
__global__ void __launch_bounds__(kElementThreads)
    elementwise(const __grid_constant__ StridedLoop<Arity + 1> loop, const F f, Out* out,
                const Inputs<T, Arity> in) {
  wait_for_inputs();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (first < loop.count) {
    int64_t at[Arity + 1];
    loop.offsets(first, at);
    Vec<T, V> x[Arity];
#pragma unroll
    for (int k = 0; k < Arity; ++k) {
      const T* p = in.data[k] + at[k + 1];
      if (V == 1 || (loop.unit >> (k + 1) & 1U) != 0) {
        x[k] = load_vec<V>(p);
      } else {
        const T value = *p;
#pragma unroll
        for (int e = 0; e < V; ++e) x[k].v[e] = value;
      }
    }
    Vec<Out, V> y;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      T values[Arity];
#pragma unroll
      for (int k = 0; k < Arity; ++k) values[k] = x[k].v[e];
      y.v[e] = apply<Arity>(f, values);
    }
    store_vec<V>(out + at[0], y);
  }
  if (V > 1 && first < loop.tail) {
    const int64_t i = loop.count * V + first;
    T values[Arity];
#pragma unroll
    for (int k = 0; k < Arity; ++k)
      values[k] = in.data[k][(loop.unit >> (k + 1) & 1U) != 0 ? i : 0];
    out[i] = apply<Arity>(f, values);
  }
}

template <int Arity>
struct ElementwiseState : KernelState {
  StridedLoop<Arity + 1> loop;
  bool vectorized = false;
};

template <int Arity, class P>
std::shared_ptr<ElementwiseState<Arity>> prepare_elementwise(const P&, const Specs& s) {
  const TensorSpec& out = s.out[0];
  std::array<Strides, Arity + 1> strides{out.strides};
  std::array<bool, Arity + 1> aligned{out.aligned};
  for (size_t k = 0; k < Arity; ++k) {
    strides[k + 1] = broadcast_strides(s.in[k].shape, s.in[k].strides, out.shape);
    aligned[k + 1] = s.in[k].aligned;
  }
  auto state = std::make_shared<ElementwiseState<Arity>>();
  state->loop = strided_loop<Arity + 1>(out.shape, strides);
  if (is_floating(s.in[0].dtype))
    state->vectorized =
        state->loop.vectorize(static_cast<int>(16 / size_of(s.in[0].dtype)), aligned);
  return state;
}

template <class F, int Arity, Takes takes>
void run_elementwise(const ParamsOf<F>& params, const ElementwiseState<Arity>& state,
                     const Call& c) {
  const ProgrammaticLaunch overlap;
  const unsigned grid = grid_over(state.loop.count, kElementThreads);
  F f{};
  if constexpr (!std::is_empty_v<F>) f = params;
  cuda_switch_all(c.in[0].dtype(), [&]<class T>() {
    constexpr bool kFloat = std::is_floating_point_v<Compute<T>>;
    if constexpr (takes == Takes::all || kFloat == (takes == Takes::floats)) {
      Inputs<T, Arity> in;
      for (size_t k = 0; k < Arity; ++k) in.data[k] = c.in[k].template as<const T>();
      using Out = ResultOf<F, T, Arity>;
      Out* out = c.out[0].template as<Out>();
      if constexpr (kFloat) {
        if (state.vectorized) {
          c.encoder->launch(elementwise<F, T, Out, Arity, kVec16<T>>, grid, kElementThreads, 0,
                            state.loop, f, out, in);
          return;
        }
      }
      c.encoder->launch(elementwise<F, T, Out, Arity, 1>, grid, kElementThreads, 0, state.loop, f,
                        out, in);
    }
  });
}

/// The list of an op with `Arity` operands of one dtype, broadcast to the output's shape; F is the
/// functor that elementwise_op was given on the CPU side.
template <class F, int Arity, Takes takes = Takes::floats>
KernelList elementwise_kernels() {
  using P = ParamsOf<F>;
  return {kernel<supports_all<P>, prepare_elementwise<Arity, P>, run_elementwise<F, Arity, takes>>(
      "strided")};
}

}  // namespace mica::cuda

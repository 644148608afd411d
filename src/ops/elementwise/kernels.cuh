#pragma once

// CUDA kernels of an elementwise op from its functor.
#include <memory>

#include "mica/op/kernel.h"
#include "mica/ops/elementwise/takes.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/fault.cuh"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/strided.cuh"

namespace mica::cuda {

inline constexpr int kElementThreads = 128;

/// Input pointers of a function of Arity operands.
template <class T, int Arity>
struct Inputs {
  const T* data[Arity];
};

template <class F, class T, size_t... I>
__device__ auto apply(const F& f, const T* x, std::index_sequence<I...>) {
  return f(to_compute(x[I])...);
}

/// What F gives for operands of type T: T itself, or bool. Said without the device's functions,
/// for the host has to come to the same answer.
template <class F, class T, int Arity>
struct ResultOfCall {
  template <size_t... I>
  static auto call(std::index_sequence<I...>)
      -> decltype(std::declval<const F&>()((static_cast<void>(I), std::declval<Compute<T>>())...));
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

/// How elements of integers of less than 64 bits, and of bool, become int64_t and come back. Their
/// dtype is known at run time: they share one kernel for each function.
struct NarrowIntegers {
  int size;
  uint32_t sign;  ///< the bit that is extended to the left; 0 of unsigned ones

  static NarrowIntegers of(DType t) {
    const bool has_sign = info_of(t).kind == DTypeKind::signed_integer;
    const auto bytes = static_cast<int>(size_of(t));
    return {bytes, has_sign ? uint32_t{1} << (8 * bytes - 1) : 0};
  }
  __device__ int64_t load(const void* data, int64_t at) const {
    uint32_t bits = 0;
    switch (size) {
      case 4:
        bits = static_cast<const uint32_t*>(data)[at];
        break;
      case 2:
        bits = static_cast<const uint16_t*>(data)[at];
        break;
      default:
        bits = static_cast<const uint8_t*>(data)[at];
    }
    return static_cast<int64_t>(bits ^ sign) - static_cast<int64_t>(sign);
  }
  __device__ void store(void* data, int64_t at, int64_t value) const {
    switch (size) {
      case 4:
        static_cast<uint32_t*>(data)[at] = static_cast<uint32_t>(value);
        break;
      case 2:
        static_cast<uint16_t*>(data)[at] = static_cast<uint16_t>(value);
        break;
      default:
        static_cast<uint8_t*>(data)[at] = static_cast<uint8_t>(value);
    }
  }
};

/// `truth`: results are bools.
template <class F, int Arity>
__global__ void __launch_bounds__(kElementThreads)
    elementwise_narrow(const __grid_constant__ StridedLoop<Arity + 1> loop, const F f, void* out,
                       const Inputs<void, Arity> in, const NarrowIntegers type, bool truth) {
  wait_for_inputs();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (first >= loop.count) return;
  int64_t at[Arity + 1];
  loop.offsets(first, at);
  int64_t x[Arity];
#pragma unroll
  for (int k = 0; k < Arity; ++k) x[k] = type.load(in.data[k], at[k + 1]);
  const auto y = apply<Arity>(f, x);
  if (truth) {
    static_cast<bool*>(out)[at[0]] = y != 0;
  } else {
    type.store(out, at[0], y);
  }
}

/// Notes a fault where an operand, whose elements are `size` bytes of integers, is zero.
template <int Arity>
__global__ void __launch_bounds__(kElementThreads)
    find_zero(const __grid_constant__ StridedLoop<Arity + 1> loop, int operand, const void* data,
              int size, Fault* fault, const char* message) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (first >= loop.count) return;
  int64_t at[Arity + 1];
  loop.offsets(first, at);
  const int64_t i = at[operand];
  const bool zero = size == 8   ? static_cast<const uint64_t*>(data)[i] == 0
                    : size == 4 ? static_cast<const uint32_t*>(data)[i] == 0
                    : size == 2 ? static_cast<const uint16_t*>(data)[i] == 0
                                : static_cast<const uint8_t*>(data)[i] == 0;
  if (zero) note_fault(fault, {.op = message});
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
  const auto launch = [&]<class T>() {
    Inputs<T, Arity> in;
    for (size_t k = 0; k < Arity; ++k) in.data[k] = c.in[k].template as<const T>();
    using Out = ResultOf<F, T, Arity>;
    Out* out = c.out[0].template as<Out>();
    if constexpr (std::is_floating_point_v<Compute<T>>) {
      if (state.vectorized) {
        c.encoder->launch(elementwise<F, T, Out, Arity, kVec16<T>>, grid, kElementThreads, 0,
                          state.loop, f, out, in);
        return;
      }
    }
    c.encoder->launch(elementwise<F, T, Out, Arity, 1>, grid, kElementThreads, 0, state.loop, f,
                      out, in);
  };
  const DType t = c.in[0].dtype();
  if (is_floating(t)) {
    if constexpr (takes != Takes::bits) cuda_switch_float(t, "elementwise", launch);
  } else if constexpr (takes != Takes::floats) {
    if constexpr (requires { F::kByZero; })
      c.encoder->launch(find_zero<Arity>, grid, kElementThreads, 0, state.loop, 2, c.in[1].data,
                        static_cast<int>(size_of(t)), c.encoder->fault(), F::kByZero);
    if (t == DType::i64) return launch.template operator()<int64_t>();
    if (t == DType::i32) return launch.template operator()<int32_t>();
    if (t == DType::u64) return launch.template operator()<uint64_t>();
    Inputs<void, Arity> in;
    for (size_t k = 0; k < Arity; ++k) in.data[k] = c.in[k].data;
    c.encoder->launch(elementwise_narrow<F, Arity>, grid, kElementThreads, 0, state.loop, f,
                      c.out[0].data, in, NarrowIntegers::of(t), c.out[0].dtype() == DType::boolean);
  }
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

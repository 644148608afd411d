#pragma once

// CUDA kernels of elementwise ops for complex numbers, from a functor of complex/functions.h.
#include "mica/op/fields.h"
#include "mica/op/kernel.h"
#include "mica/ops/complex/functions.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica::cuda {

template <class F, class In, class Out, int N>
__global__ void __launch_bounds__(256)
    complex_elements(const __grid_constant__ StridedLoop<N + 1> loop, Out* out, const In* a,
                     const In* b) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < loop.count;
       i += step) {
    int64_t at[N + 1];
    loop.offsets(i, at);
    if constexpr (N == 1) {
      out[at[0]] = F()(a[at[1]]);
    } else {
      out[at[0]] = F()(a[at[1]], b[at[2]]);
    }
  }
}

template <int N>
struct ComplexState : KernelState {
  StridedLoop<N + 1> loop;
};

template <int N>
std::shared_ptr<ComplexState<N>> prepare_complex(const NoParams&, const Specs& s) {
  std::array<Strides, N + 1> strides{s.out[0].strides};
  for (size_t k = 0; k < N; ++k)
    strides[k + 1] = broadcast_strides(s.in[k].shape, s.in[k].strides, s.out[0].shape);
  auto state = std::make_shared<ComplexState<N>>();
  state->loop = strided_loop<N + 1>(s.out[0].shape, strides);
  return state;
}

template <class F, class In, int N>
void launch_complex(const ComplexState<N>& state, const Call& c) {
  const In* a = c.in[0].as<const In>();
  const In* b = N == 2 ? c.in[N - 1].as<const In>() : nullptr;
  const auto launch = [&](auto* out) {
    using Out = std::remove_pointer_t<decltype(out)>;
    c.encoder->launch(complex_elements<F, In, Out, N>,
                      grid_for(state.loop.count, 256, c.encoder->multiprocessors()), 256, 0,
                      state.loop, out, a, b);
  };
  if constexpr (N == 1) {
    launch(c.out[0].as<std::remove_cvref_t<decltype(F()(In()))>>());
  } else {
    launch(c.out[0].as<std::remove_cvref_t<decltype(F()(In(), In()))>>());
  }
}

/// `real` where the operands are the parts.
template <class F, int N, bool real>
void run_complex(const NoParams&, const ComplexState<N>& state, const Call& c) {
  if (state.loop.count == 0) return;
  const bool wide = real_dtype(c.in[0].dtype()) == DType::f64;
  if constexpr (real) {
    wide ? launch_complex<F, double>(state, c) : launch_complex<F, float>(state, c);
  } else {
    wide ? launch_complex<F, Complex<double>>(state, c)
         : launch_complex<F, Complex<float>>(state, c);
  }
}

template <bool real>
Support supports_complex(const NoParams&, const Specs& s) {
  return is_complex(s.in[0].dtype) != real ? Support::yes()
                                           : Support::no("computes complex numbers");
}

template <class F, int N = 1, bool real = false>
Kernel complex_kernel() {
  Kernel k = kernel<supports_complex<real>, prepare_complex<N>, run_complex<F, N, real>>("complex");
  k.takes_complex = true;
  return k;
}

/// The list of an op with a kernel for complex numbers behind those for real ones.
template <class F, int N>
KernelList with_complex(KernelList kernels) {
  kernels.push_back(complex_kernel<F, N>());
  return kernels;
}

}  // namespace mica::cuda

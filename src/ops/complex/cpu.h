#pragma once

// CPU kernels of elementwise ops for complex numbers, from a functor of complex/functions.h. They
// stand in the lists of the ops beside the kernels for real numbers.
#include "mica/core/dtype_switch.h"
#include "mica/ops/complex/functions.h"
#include "mica/ops/elementwise/cpu.h"

namespace mica {
namespace elementwise {

template <class F, size_t N, class C>
auto complex_function() {
  using Result = decltype(apply<N>(std::declval<const F&>(), std::declval<C(&)[N]>()));
  const auto singly = [](const void*, const C* const* in, int64_t n, Result* out, Store) {
    for (int64_t i = 0; i < n; ++i) {
      C x[N];
      for (size_t k = 0; k < N; ++k) x[k] = in[k][i];
      out[i] = apply<N>(F(), x);
    }
  };
  return Function<C, Result>{nullptr, singly};
}

template <class F, size_t N>
void run_complex(const NoParams&, const LoopState<N + 1>& state, const Call& c) {
  switch_complex(c.in[0].dtype(), "complex",
                 [&]<class C>() { run_function<N>(complex_function<F, N, C>(), state.loop, c); });
}

inline Support supports_complex(const NoParams&, const Specs& s) {
  return is_complex(s.in[0].dtype) ? Support::yes() : Support::no("computes complex numbers");
}

}  // namespace elementwise

template <class F, size_t N = 1>
Kernel complex_kernel() {
  using namespace elementwise;
  Kernel k = kernel<supports_complex, prepare<N, F>, run_complex<F, N>>("complex");
  k.takes_complex = true;
  return k;
}

}  // namespace mica

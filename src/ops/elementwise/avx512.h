#pragma once

#include "mica/ops/elementwise/apply.h"

namespace mica::elementwise {

/// A functor by vectors of 64 bytes, for processors with AVX-512 (`has_avx512`). Instantiated in
/// the file cpu_avx512.cpp of the functor's room.
template <class F, size_t N, class C>
void apply_avx512(const void* f, const C* const* in, int64_t n, C* out, Store store);

#if defined(__AVX512F__)

template <class F, size_t N, class C>
void apply_avx512(const void* f, const C* const* in, int64_t n, C* out, Store store) {
  apply_vectors<N>(*static_cast<const F*>(f), in, n, out, store);
}

#define MICA_AVX512(name, operands)                                                               \
  template void apply_avx512<functor::name, operands>(const void*, const float* const*, int64_t,  \
                                                      float*, Store);                             \
  template void apply_avx512<functor::name, operands>(const void*, const double* const*, int64_t, \
                                                      double*, Store);

#endif

}  // namespace mica::elementwise

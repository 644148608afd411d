#include "mica/ops/softmax/row.h"

namespace mica::softmax_row {

template <bool logarithm, class C>
void compute_avx512(const C* x, C* y, int64_t n) {
  compute<logarithm>(x, y, n);
}

template void compute_avx512<false>(const float*, float*, int64_t);
template void compute_avx512<true>(const float*, float*, int64_t);
template void compute_avx512<false>(const double*, double*, int64_t);
template void compute_avx512<true>(const double*, double*, int64_t);

}  // namespace mica::softmax_row

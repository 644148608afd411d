#include "mica/op/fields.h"
#include "mica/ops/sparse/cpu_matmul.h"
#include "mica/ops/sparse/cpu_pattern.h"
#include "mica/runtime/cpu/vec.h"

namespace mica {
namespace {

using simd::Vec;

template <class I, class C>
struct Product {
  const CsrPattern<I>& a;
  const C* values;
  const C* dense;  ///< (columns, k)
  C* y;            ///< (rows, k)
  int64_t k;
};

/// kVectors vectors of the result's columns from j on, for rows [first, last): they stay in
/// registers while the entries of a row pass.
template <int kVectors, class I, class C>
void multiply_vectors(const Product<I, C>& p, int64_t j, int64_t first, int64_t last) {
  constexpr int64_t kWidth = Vec<C>::kWidth;
  for (int64_t r = first; r < last; ++r) {
    Vec<C> sums[kVectors];
    for (Vec<C>& s : sums) s = Vec<C>(0);
    for (int64_t e = p.a.begin(r); e < p.a.end(r); ++e) {
      const Vec<C> v(p.values[e]);
      const C* x = p.dense + p.a.column(e) * p.k + j;
      for (int n = 0; n < kVectors; ++n) sums[n] = fma(v, Vec<C>::load(x + n * kWidth), sums[n]);
    }
    for (int n = 0; n < kVectors; ++n) sums[n].store(p.y + r * p.k + j + n * kWidth);
  }
}

/// The same for kColumns columns, fewer than a vector has. Four sums of each run beside each other,
/// so that none waits for the one before.
template <int kColumns, class I, class C>
void multiply_columns(const Product<I, C>& p, int64_t j, int64_t first, int64_t last) {
  constexpr int kSums = kColumns > 2 ? 1 : 4;
  for (int64_t r = first; r < last; ++r) {
    C sums[kSums][kColumns] = {};
    const auto add = [&](C* sum, int64_t e) {
      const C* x = p.dense + p.a.column(e) * p.k + j;
      for (int n = 0; n < kColumns; ++n) sum[n] += p.values[e] * x[n];
    };
    int64_t e = p.a.begin(r);
    const int64_t end = p.a.end(r);
    for (; e + kSums <= end; e += kSums)
      for (int s = 0; s < kSums; ++s) add(sums[s], e + s);
    for (; e < end; ++e) add(sums[0], e);
    for (int n = 0; n < kColumns; ++n) {
      for (int s = 1; s < kSums; ++s) sums[0][n] += sums[s][n];
      p.y[r * p.k + j + n] = sums[0][n];
    }
  }
}

/// Calls multiply_columns for the columns from j on, `count` of them.
template <int kColumns, class I, class C>
void multiply_rest(const Product<I, C>& p, int64_t j, int64_t count, int64_t first, int64_t last) {
  if constexpr (kColumns > 0) {
    if (count == kColumns) return multiply_columns<kColumns>(p, j, first, last);
    multiply_rest<kColumns - 1>(p, j, count, first, last);
  }
}

/// Of many columns a band at a time, so that the part of dense that rows share stays in the cache.
template <class I, class C>
void multiply_rows(const Product<I, C>& p, int64_t first, int64_t last) {
  constexpr int64_t kWidth = Vec<C>::kWidth;
  int64_t j = 0;
  for (; j + 8 * kWidth <= p.k; j += 8 * kWidth) multiply_vectors<8>(p, j, first, last);
  for (; j + 4 * kWidth <= p.k; j += 4 * kWidth) multiply_vectors<4>(p, j, first, last);
  for (; j + kWidth <= p.k; j += kWidth) multiply_vectors<1>(p, j, first, last);
  multiply_rest<static_cast<int>(kWidth) - 1>(p, j, p.k - j, first, last);
}

void run(const NoParams&, const KernelState&, const Call& c) {
  run_sparse(c, c.in[0].dtype(), c.in[2].dtype(), [&]<class I, class C>(const auto& operands) {
    const int64_t k = c.out[0].shape()[1];
    const CsrPattern<I> a("csr_matmul", c.in[0], c.in[1], c.in[3].shape()[0]);
    const Product<I, C> p{a, operands.in(2), operands.in(3), operands.out(0), k};
    if (k == 0) return a.check_columns();
    a.for_rows(k, [&](int64_t first, int64_t last) { multiply_rows(p, first, last); });
  });
}

template <class C>
C dot(const C* a, const C* b, int64_t n) {
  constexpr int64_t kWidth = Vec<C>::kWidth;
  Vec<C> sums[4] = {Vec<C>(0), Vec<C>(0), Vec<C>(0), Vec<C>(0)};
  int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth)
    for (int m = 0; m < 4; ++m)
      sums[m] = fma(Vec<C>::load(a + i + m * kWidth), Vec<C>::load(b + i + m * kWidth), sums[m]);
  for (; i + kWidth <= n; i += kWidth)
    sums[0] = fma(Vec<C>::load(a + i), Vec<C>::load(b + i), sums[0]);
  C sum = n < kWidth ? C(0) : sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void run_sampled(const NoParams&, const KernelState&, const Call& c) {
  run_sparse(c, c.in[0].dtype(), c.in[2].dtype(), [&]<class I, class C>(const auto& operands) {
    const int64_t k = c.in[2].shape()[1];
    const CsrPattern<I> pattern("csr_sampled_matmul", c.in[0], c.in[1], c.in[3].shape()[0]);
    const C* a = operands.in(2);
    const C* b = operands.in(3);
    C* y = operands.out(0);
    pattern.for_rows(k, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r)
        for (int64_t e = pattern.begin(r); e < pattern.end(r); ++e)
          y[e] = dot(a + r * k, b + pattern.column(e) * k, k);
    });
  });
}

}  // namespace

Kernel csr_matmul_rows_kernel() {
  return kernel<supports_dense<NoParams>, prepare_operands<NoParams>, run>("rows");
}

Kernel csr_sampled_matmul_rows_kernel() {
  return kernel<supports_dense<NoParams>, prepare_operands<NoParams>, run_sampled>("rows");
}

}  // namespace mica

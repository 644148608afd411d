#include <algorithm>

#include "mica/core/switch_bytes.h"
#include "mica/op/kernel.h"
#include "mica/ops/triangle/triangle.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

/// Row-major matrices (…, rows, columns).
struct Matrices {
  int64_t count;  ///< elements
  int64_t rows, columns;
  int64_t diagonal;
  bool narrow;  ///< indices fit in 31 bits
  Divider by_rows, by_columns;
};

struct Place {
  int64_t row, column;
};
__device__ Place place_at(const Matrices& m, int64_t index) {
  if (m.narrow) {
    const auto i = static_cast<uint32_t>(index);
    const uint32_t line = m.by_columns.quotient(i);
    const uint32_t matrix = m.by_rows.quotient(line);
    return {line - matrix * m.by_rows.divisor, i - line * m.by_columns.divisor};
  }
  const int64_t line = index / m.columns;
  return {line % m.rows, index - line * m.columns};
}

/// A thread writes 16 bytes, which may go over the end of a row; what does not stay is not read.
template <bool upper, class Word>
__global__ void __launch_bounds__(kThreads)
    keep_triangle(Matrices m, Word* out, const Word* in, bool aligned) {
  constexpr int V = kVec16<Word>;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * V;
  const auto stays = [&](const Place& at) {
    return upper ? at.column - at.row >= m.diagonal : at.column - at.row <= m.diagonal;
  };
  for (int64_t base = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V;
       base < m.count; base += step) {
    Place at = place_at(m, base);
    bool kept[V];
    bool any = false;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      if (at.column == m.columns) at = {at.row + 1 == m.rows ? 0 : at.row + 1, 0};
      kept[e] = stays(at);
      any = any || kept[e];
      ++at.column;
    }
    if (aligned && base + V <= m.count) {
      Vec<Word, V> x{};
      if (any) x = load_vec<V>(in + base);
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (!kept[e]) x.v[e] = Word{};
      store_vec<V>(out + base, x);
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (base + e < m.count) out[base + e] = kept[e] ? in[base + e] : Word{};
    }
  }
}

Support supports(const TriangleParams&, const Specs&) { return Support::yes().with_contiguous(1); }

template <bool upper, class Word>
void launch(const TriangleParams& p, const Call& c) {
  const Shape& shape = c.out[0].shape();
  const int64_t count = c.out[0].numel();
  if (count == 0) return;
  const int64_t rows = shape[shape.rank() - 2];
  const int64_t columns = shape.back();
  const bool narrow = count < kNarrowLimit;
  const Matrices m{.count = count,
                   .rows = rows,
                   .columns = columns,
                   .diagonal = std::clamp(p.diagonal, -rows, columns),
                   .narrow = narrow,
                   .by_rows = Divider(narrow ? static_cast<uint32_t>(rows) : 1),
                   .by_columns = Divider(narrow ? static_cast<uint32_t>(columns) : 1)};
  const bool aligned = is_aligned(c.in[0].data, 16) && is_aligned(c.out[0].data, 16);
  const unsigned grid =
      grid_for(count, int64_t{kThreads} * kVec16<Word>, c.encoder->multiprocessors());
  c.encoder->launch(keep_triangle<upper, Word>, grid, kThreads, 0, m, c.out[0].as<Word>(),
                    c.in[0].as<const Word>(), aligned);
}

template <bool upper>
void run(const TriangleParams& p, const Call& c) {
  switch_words(size_of(c.out[0].dtype()), [&]<class Word>() { launch<upper, Word>(p, c); });
}

}  // namespace

KernelList tril_cuda_kernels() { return {kernel<supports, run<false>>("vectorized")}; }
KernelList triu_cuda_kernels() { return {kernel<supports, run<true>>("vectorized")}; }

}  // namespace mica

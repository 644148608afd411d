#include "mica/ops/triangle/triangle.h"

#include <algorithm>
#include <cstring>

#include "mica/core/check.h"
#include "mica/core/switch_bytes.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

/// The result is row-major whatever the input is.
void infer(const TriangleParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check<ShapeError>(in[0].rank() >= 2, "{}: expected at least 2 dimensions, got {}", out.op(),
                    in[0].shape);
  out.add(in[0].shape, in[0].dtype);
  out[0].strides = contiguous_strides(in[0].shape);
}

template <auto f>
Tensors vjp(const TriangleParams& p, const VjpArgs& a) {
  return {f(a.grad[0], p.diagonal)};
}

/// Row by row: the part that stays is copied, the rest is zero.
template <bool upper, class Word>
void run_as(const TriangleParams& p, const Call& c) {
  const Arg& x = c.in[0];
  const int rank = x.spec->rank();
  const int64_t rows = x.shape()[rank - 2];
  const int64_t columns = x.shape()[rank - 1];
  const int64_t step = x.strides()[rank - 1];
  if (x.numel() == 0) return;
  const int64_t diagonal = std::clamp(p.diagonal, -rows, columns);
  constexpr int64_t kElementsPerThread = 1 << 15;
  const int64_t grain = std::max<int64_t>(1, kElementsPerThread / columns);
  parallel_for(x.numel() / columns, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const Word* from = x.as<const Word>();
      int64_t rest = row;
      for (int axis = rank - 2; axis >= 0; --axis) {
        from += rest % x.shape()[axis] * x.strides()[axis];
        rest /= x.shape()[axis];
      }
      Word* to = c.out[0].as<Word>() + row * columns;
      // Columns [0, edge) lie below the diagonal.
      const int64_t edge = std::clamp<int64_t>(row % rows + diagonal + (upper ? 0 : 1), 0, columns);
      const int64_t begin = upper ? edge : 0;
      const int64_t end = upper ? columns : edge;
      std::fill(to, to + begin, Word{});
      if (step == 1) {
        std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin) * sizeof(Word));
      } else {
        for (int64_t i = begin; i < end; ++i) to[i] = from[i * step];
      }
      std::fill(to + end, to + columns, Word{});
    }
  });
}

template <bool upper>
void run(const TriangleParams& p, const Call& c) {
  switch_words(size_of(c.out[0].dtype()), [&]<class Word>() { run_as<upper, Word>(p, c); });
}

}  // namespace

const OpDef& tril_op() {
  static OpDef def = Op<TriangleParams>("tril")
                         .inputs({"x"})
                         .moves()
                         .infer<infer>()
                         .vjp<vjp<tril>>({})
                         .cpu({kernel<supports_all<TriangleParams>, run<false>>("runs")})
                         .build();
  return def;
}

const OpDef& triu_op() {
  static OpDef def = Op<TriangleParams>("triu")
                         .inputs({"x"})
                         .moves()
                         .infer<infer>()
                         .vjp<vjp<triu>>({})
                         .cpu({kernel<supports_all<TriangleParams>, run<true>>("runs")})
                         .build();
  return def;
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  return dispatch(tril_op(), TriangleParams{diagonal}, {x})[0];
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  return dispatch(triu_op(), TriangleParams{diagonal}, {x})[0];
}

Functions triangle_functions() {
  return {{.name = "tril",
           .doc = "Each matrix of input (…, rows, columns) with zeros above a diagonal: 0 is the "
                  "main one, a positive one lies above it.",
           .signatures = {{tril, {"input", {"diagonal", 0}}}},
           .offer = kInPlaceToo},
          {.name = "triu",
           .doc = "Each matrix of input (…, rows, columns) with zeros below a diagonal: 0 is the "
                  "main one, a positive one lies above it.",
           .signatures = {{triu, {"input", {"diagonal", 0}}}},
           .offer = kInPlaceToo}};
}

}  // namespace mica

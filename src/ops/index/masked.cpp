#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/index/index.h"
#include "mica/ops/index/placement.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

// Two passes over blocks of elements: nonzero_ends counts, nonzero writes.
constexpr int64_t kBlock = kNonzeroBlock;

int64_t blocks_of(int64_t numel) { return (numel + kBlock - 1) / kBlock; }

void infer_ends(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add({blocks_of(in[0].numel())}, DType::i64);
}

void infer(const NonzeroParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<ShapeError>(p.count >= 0 && p.count <= in[0].numel(), "{}: {} has no {} elements", out.op(),
                    in[0].shape, p.count);
  check<DTypeError>(in[1].dtype == DType::i64, "{}: ends must be i64, got {}", out.op(),
                    in[1].dtype);
  const Shape ends = {blocks_of(in[0].numel())};
  check<ShapeError>(in[1].shape == ends, "{}: ends must be {}, got {}", out.op(), ends,
                    in[1].shape);
  out.add({p.count, in[0].rank()}, DType::i64);
}

/// Calls f(position, elements, step, n) for the runs along the last axis of a block, in row-major
/// order; `position` is that of the run's first element.
template <class W, class F>
void each_run(const Arg& x, int64_t block, F&& f) {
  const Shape& shape = x.shape();
  const int last = shape.rank() - 1;
  int64_t begin = block * kBlock;
  const int64_t end = std::min(x.numel(), begin + kBlock);
  Dims at = Dims::filled(shape.rank(), 0);
  int64_t rest = begin;
  for (int i = last; i >= 0; --i) {
    at[i] = rest % shape[i];
    rest /= shape[i];
  }
  while (begin < end) {
    const W* from = x.as<W>();
    for (int i = 0; i <= last; ++i) from += at[i] * x.strides()[i];
    const int64_t n = last < 0 ? 1 : std::min(shape[last] - at[last], end - begin);
    f(at, from, last < 0 ? 1 : x.strides()[last], n);
    begin += n;
    if (last >= 0) at[last] += n - 1;
    for (int i = last; i >= 0 && ++at[i] == shape[i]; --i) at[i] = 0;
  }
}

void run_ends(const NoParams&, const Call& c) {
  const Arg& x = c.in[0];
  auto* ends = c.out[0].as<int64_t>();
  const int64_t blocks = c.out[0].numel();
  switch_bits(x.dtype(), [&]<class W>(W bits) {
    parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        int32_t count = 0;
        each_run<W>(x, b, [&](const Dims&, const W* from, int64_t step, int64_t n) {
          if (step == 1) {
            for (int64_t i = 0; i < n; ++i) count += (from[i] & bits) != 0;
          } else {
            for (int64_t i = 0; i < n; ++i) count += (from[i * step] & bits) != 0;
          }
        });
        ends[b] = count;
      }
    });
  });
  for (int64_t b = 1; b < blocks; ++b) ends[b] += ends[b - 1];
}

/// Writes the positions of a run from `to` on and returns their end; never past `end`.
template <class W>
int64_t* write_run(const Dims& at, const W* from, int64_t step, int64_t n, W bits, int64_t* to,
                   const int64_t* end) {
  constexpr int64_t kGroup = 8;
  const int rank = at.rank();
  for (int64_t first = 0; first < n; first += kGroup) {
    const int64_t last = std::min(n, first + kGroup);
    W any = 0;
    for (int64_t i = first; i < last; ++i) any |= from[i * step];
    if ((any & bits) == 0) continue;
    // Each position is written, and kept by going on behind it: no branch to guess.
    for (int64_t i = first; i < last && to != end; ++i) {
      for (int k = 0; k < rank - 1; ++k) to[k] = at[k];
      to[rank - 1] = at[rank - 1] + i;
      to += (from[i * step] & bits) != 0 ? rank : 0;
    }
  }
  return to;
}

void run(const NonzeroParams& p, const Call& c) {
  const Arg& x = c.in[0];
  const int rank = x.shape().rank();
  const int64_t step = c.in[1].strides()[0];
  const auto* ends = c.in[1].as<int64_t>();
  const int64_t blocks = c.in[1].numel();
  const auto end_of = [&](int64_t b) { return b < 0 ? 0 : ends[b * step]; };
  bool fits = end_of(blocks - 1) == p.count;
  for (int64_t b = 0; b < blocks; ++b) fits = fits && end_of(b) >= end_of(b - 1);
  constexpr const char* kMisfit = "nonzero: ends are not those of x";
  check(fits, kMisfit);
  if (rank == 0) return;
  auto* out = c.out[0].as<int64_t>();
  switch_bits(x.dtype(), [&]<class W>(W bits) {
    parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        int64_t* to = out + end_of(b - 1) * rank;
        const int64_t* end = out + end_of(b) * rank;
        each_run<W>(x, b, [&](const Dims& at, const W* from, int64_t stride, int64_t n) {
          to = write_run(at, from, stride, n, bits, to, end);
        });
        check(to == end, kMisfit);
      }
    });
  });
}

void check_mask(const char* op, const Tensor& mask) {
  check<DTypeError>(mask.dtype() == DType::boolean, "{}: mask must be bool, got {}", op,
                    mask.dtype());
}

}  // namespace

const OpDef& nonzero_ends_op() {
  static OpDef def = Op<NoParams>("nonzero_ends")
                         .inputs({"x"})
                         .outputs({"ends"})
                         .infer<infer_ends>()
                         .no_gradient("it counts")
                         .cpu({kernel<supports_all<NoParams>, run_ends>("blocks")})
                         .build();
  return def;
}

const OpDef& nonzero_op() {
  static OpDef def = Op<NonzeroParams>("nonzero")
                         .inputs({"x", "ends"})
                         .outputs({"positions"})
                         .infer<infer>()
                         .no_gradient("positions are integers")
                         .cpu({kernel<supports_all<NonzeroParams>, run>("blocks")})
                         .build();
  return def;
}

Tensor nonzero(const Tensor& x) {
  const Tensor seen = truth_of(x.detach());
  const Tensor ends = dispatch(nonzero_ends_op(), NoParams{}, {seen})[0];
  const int64_t blocks = ends.numel();
  NonzeroParams params;
  if (blocks > 0) params.count = static_cast<int64_t>(slice(ends, 0, blocks - 1, blocks).item());
  return dispatch(nonzero_op(), params, {seen, ends})[0];
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Number value) {
  return masked_fill(x, mask, full({}, value, {x.dtype(), x.device()}));
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  check_mask("masked_fill", mask);
  check<ShapeError>(value.rank() == 0, "masked_fill: value must be 0-d, got {}", value.shape());
  return where(mask, cast(value, x.dtype()), x);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check_mask("masked_select", mask);
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  const Tensor at = nonzero(reshape(expand(mask, shape), {-1}));
  return index_select(reshape(expand(x, shape), {-1}), 0, reshape(at, {at.size(0)}));
}

}  // namespace mica

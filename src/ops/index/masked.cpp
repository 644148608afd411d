#include <cstring>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/index/index.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

constexpr int64_t kBlock = 1 << 15;  // elements counted, then written, by one thread

int64_t blocks_of(int64_t numel) { return (numel + kBlock - 1) / kBlock; }

void infer(const NonzeroParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<ShapeError>(p.count >= 0 && p.count <= in[0].numel(), "nonzero: {} has no {} elements",
                    in[0].shape, p.count);
  out.add({p.count, in[0].rank()}, DType::i64);
}

/// Calls f(position, x, step, n) for the runs of x along its last axis among the elements
/// [begin, end) in row-major order; `position` is that of the run's first element.
template <class W, class F>
void each_row(const Arg& x, int64_t begin, int64_t end, F&& f) {
  const Shape& shape = x.shape();
  const int last = shape.rank() - 1;
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

/// Two passes: each block is counted, then written where the blocks before it end. Elements are
/// looked at as words; `bits` leaves out the sign of floats, so that -0 is zero.
template <class W>
void write_positions(const Arg& x, W bits, int64_t* ends, const Arg& out) {
  const int64_t numel = x.numel();
  const int64_t blocks = blocks_of(numel);
  const auto end_of = [&](int64_t block) { return std::min(numel, (block + 1) * kBlock); };
  parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      int64_t count = 0;
      each_row<W>(x, b * kBlock, end_of(b),
                  [&](const Dims&, const W* from, int64_t step, int64_t n) {
                    for (int64_t i = 0; i < n; ++i) count += (from[i * step] & bits) != 0 ? 1 : 0;
                  });
      ends[b] = count;
    }
  });
  for (int64_t b = 1; b < blocks; ++b) ends[b] += ends[b - 1];
  check(out.shape()[0] == (blocks > 0 ? ends[blocks - 1] : 0),
        "nonzero: expected {} elements that are not zero, found {}", out.shape()[0],
        blocks > 0 ? ends[blocks - 1] : 0);
  const int rank = x.shape().rank();
  parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      int64_t* to = out.as<int64_t>() + (b > 0 ? ends[b - 1] : 0) * rank;
      each_row<W>(x, b * kBlock, end_of(b),
                  [&](const Dims& at, const W* from, int64_t step, int64_t n) {
                    for (int64_t i = 0; i < n; ++i) {
                      if ((from[i * step] & bits) == 0) continue;
                      for (int k = 0; k < rank - 1; ++k) *to++ = at[k];
                      if (rank > 0) *to++ = at[rank - 1] + i;
                    }
                  });
    }
  });
}

std::shared_ptr<KernelState> prepare(const NonzeroParams&, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes = static_cast<size_t>(blocks_of(s.in[0].numel())) * sizeof(int64_t);
  return state;
}

void run(const NonzeroParams&, const KernelState&, const Call& c) {
  const Arg& x = c.in[0];
  auto* ends = static_cast<int64_t*>(c.workspace);
  const auto with_words = [&]<class W>() {
    const auto bits = static_cast<W>(~W{0});
    write_positions<W>(x, is_floating(x.dtype()) ? static_cast<W>(bits >> 1) : bits, ends,
                       c.out[0]);
  };
  switch (size_of(x.dtype())) {
    case 1:
      return with_words.operator()<uint8_t>();
    case 2:
      return with_words.operator()<uint16_t>();
    case 4:
      return with_words.operator()<uint32_t>();
    default:
      return with_words.operator()<uint64_t>();
  }
}

void check_mask(const char* op, const Tensor& mask) {
  check<DTypeError>(mask.dtype() == DType::boolean, "{}: mask must be bool, got {}", op,
                    mask.dtype());
}

}  // namespace

const OpDef& nonzero_op() {
  static OpDef def = Op<NonzeroParams>("nonzero")
                         .inputs(1)
                         .infer<infer>()
                         .no_gradient("positions are integers")
                         .cpu({kernel<supports_all<NonzeroParams>, prepare, run>("blocks")})
                         .build();
  return def;
}

Tensor nonzero(const Tensor& x) {
  const Tensor seen = x.detach();
  const Tensor holds = x.dtype() == DType::boolean ? seen : ne(seen, 0.0);
  const auto count = static_cast<int64_t>(sum(holds).item());
  return dispatch(nonzero_op(), NonzeroParams{count}, {seen})[0];
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
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

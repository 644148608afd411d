#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/reduce/axes.h"
#include "mica/ops/reduce/cpu_engine.h"
#include "mica/ops/reduce/cpu_reference.h"

// any, all and count_nonzero count the elements that are not zero.
namespace mica {
namespace {

void infer_truth(const ReduceParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  add_reduced(out, in[0].shape, p.axes, p.keepdim, DType::boolean);
}
void infer_count(const ReduceParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  add_reduced(out, in[0].shape, p.axes, p.keepdim, DType::i64);
}

/// What an op makes of the count.
enum class Wanted { any, all, count };

/// Elements are taken as bits; those of `mask` are all zero in a zero of either sign.
template <class Bits>
struct Nonzero {
  using Value = Bits;
  using Lane = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;
  using Acc = int64_t;
  Wanted wanted;
  Bits mask;
  int64_t total;
  static Acc start() { return 0; }
  Lane map(Bits x) const { return (x & mask) != 0 ? 1 : 0; }
  template <class A>
  static A join(A a, A b) {
    return a + b;
  }
  void put(const Arg& out, int64_t at, Acc acc) const {
    if (wanted == Wanted::count) {
      out.as<int64_t>()[at] = acc;
    } else {
      out.as<bool>()[at] = wanted == Wanted::any ? acc > 0 : acc == total;
    }
  }
};

std::shared_ptr<reduction::Plan> prepare(const ReduceParams& p, const Specs& s) {
  return std::make_shared<reduction::Plan>(s.in[0], s.out[0], p.axes, sizeof(int64_t));
}

void count(Wanted wanted, const reduction::Plan& plan, const Call& c) {
  const DType t = c.in[0].dtype();
  const auto run = [&]<class Bits>(Bits every) {
    const auto mask = is_floating(t) ? static_cast<Bits>(every >> 1) : every;
    const reduction::Fold<Nonzero<Bits>> fold{{wanted, mask, plan.reduced.numel}};
    reduction::reduce(plan, fold, c);
  };
  switch (size_of(t)) {
    case 8:
      return run(~uint64_t{0});
    case 4:
      return run(~uint32_t{0});
    case 2:
      return run(uint16_t{0xffff});
    default:
      return run(uint8_t{0xff});
  }
}

template <Wanted wanted>
void run_vectorized(const ReduceParams&, const reduction::Plan& plan, const Call& c) {
  count(wanted, plan, c);
}

template <Wanted wanted>
void run_reference(const ReduceParams& p, const Call& c) {
  reduction::reduce_reference_any(p.axes, c, []<class W>(const reduction::Elements<W>& x) {
    int64_t nonzero = 0;
    for (int64_t i = 0; i < x.size(); ++i) nonzero += x[i] != 0 ? 1 : 0;
    if constexpr (wanted == Wanted::count) {
      return nonzero;
    } else {
      return wanted == Wanted::any ? nonzero > 0 : nonzero == x.size();
    }
  });
}

template <Wanted wanted>
OpDef define(const char* name) {
  constexpr auto kInfer = wanted == Wanted::count ? infer_count : infer_truth;
  return Op<ReduceParams>(name)
      .inputs({"x"})
      .reduction()
      .template infer<kInfer>()
      .no_gradient("whether an element is zero does not change smoothly")
      .cpu({kernel<supports_all<ReduceParams>, prepare, run_vectorized<wanted>>("vectorized"),
            kernel<supports_all<ReduceParams>, run_reference<wanted>>("reference")})
      .build();
}

Tensor call(const OpDef& op, const Tensor& x, const Dims& axes, bool keepdim) {
  return dispatch(op, ReduceParams{reduced_axes(op.name, axes, x.rank()), keepdim},
                  {truth_of(x)})[0];
}

}  // namespace

const OpDef& any_op() {
  static OpDef def = define<Wanted::any>("any");
  return def;
}

const OpDef& all_op() {
  static OpDef def = define<Wanted::all>("all");
  return def;
}

const OpDef& count_nonzero_op() {
  static OpDef def = define<Wanted::count>("count_nonzero");
  return def;
}

Tensor any(const Tensor& x, const Dims& axes, bool keepdim) {
  return call(any_op(), x, axes, keepdim);
}
Tensor all(const Tensor& x, const Dims& axes, bool keepdim) {
  return call(all_op(), x, axes, keepdim);
}
Tensor count_nonzero(const Tensor& x, const Dims& axes, bool keepdim) {
  return call(count_nonzero_op(), x, axes, keepdim);
}

}  // namespace mica

#include "mica/ops/flip/flip.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/flip/cpu_axis_map.h"
#include "mica/ops/view/leading_axis.h"

namespace mica {
namespace {

void infer_flip(const FlipParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  uint32_t seen = 0;
  for (const int64_t axis : p.axes) {
    const uint32_t bit = 1U << normalize_axis(axis, in[0].rank(), "flip");
    check<ShapeError>((seen & bit) == 0, "flip: axes {} name one twice", p.axes);
    seen |= bit;
  }
  out.add(in[0].shape, in[0].dtype);
}

Tensors flip_vjp(const FlipParams& p, const VjpArgs& a) { return {flip(a.grad[0], p.axes)}; }

std::shared_ptr<MappedCopy> prepare_flip(const FlipParams& p, const Specs& s) {
  return std::make_shared<MappedCopy>(s.out[0], s.in[0], flip_maps(p, s.in[0].shape));
}

void infer_roll(const RollParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<ShapeError>(p.shifts.rank() == in[0].rank(), "roll: expected {} shifts, got {}",
                    in[0].rank(), p.shifts);
  out.add(in[0].shape, in[0].dtype);
}

Tensors roll_vjp(const RollParams& p, const VjpArgs& a);

std::shared_ptr<MappedCopy> prepare_roll(const RollParams& p, const Specs& s) {
  return std::make_shared<MappedCopy>(s.out[0], s.in[0], roll_maps(p, s.in[0].shape));
}

template <class P>
void run(const P&, const MappedCopy& state, const Call& c) {
  state.run(c.out[0], c.in[0], nullptr);
}

}  // namespace

AxisMaps flip_maps(const FlipParams& p, const Shape& shape) {
  AxisMaps maps;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t n = shape[i];
    if (p.axes.contains(i)) {
      maps[static_cast<size_t>(i)].add({.length = n, .first = n - 1, .step = -1});
    } else {
      maps[static_cast<size_t>(i)] = AxisMap::identity(n);
    }
  }
  return maps;
}

AxisMaps roll_maps(const RollParams& p, const Shape& shape) {
  AxisMaps maps;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t n = shape[i];
    if (n == 0) continue;
    const int64_t shift = (p.shifts[i] % n + n) % n;
    maps[static_cast<size_t>(i)].add({.length = shift, .first = n - shift});
    maps[static_cast<size_t>(i)].add({.length = n - shift});
  }
  return maps;
}

const OpDef& flip_op() {
  static OpDef def =
      Op<FlipParams>("flip")
          .inputs({"x"})
          .moves()
          .infer<infer_flip>()
          .vjp<flip_vjp>({})
          .cpu({kernel<supports_all<FlipParams>, prepare_flip, run<FlipParams>>("runs")})
          .build();
  return def;
}

const OpDef& roll_op() {
  static OpDef def =
      Op<RollParams>("roll")
          .inputs({"x"})
          .moves()
          .infer<infer_roll>()
          .vjp<roll_vjp>({})
          .cpu({kernel<supports_all<RollParams>, prepare_roll, run<RollParams>>("runs")})
          .build();
  return def;
}

namespace {

Tensors roll_vjp(const RollParams& p, const VjpArgs& a) {
  RollParams back;
  for (const int64_t shift : p.shifts) back.shifts.push_back(-shift);
  return {dispatch(roll_op(), back, {a.grad[0]})[0]};
}

}  // namespace

Tensor flip(const Tensor& x, const Dims& axes) {
  if (x.rank() == 0 && !axes.empty())
    return with_leading_axis(x, 1, [&](const Tensor& one) { return flip(one, axes); });
  FlipParams p;
  for (const int64_t axis : axes) p.axes.push_back(normalize_axis(axis, x.rank(), "flip"));
  return dispatch(flip_op(), p, {x})[0];
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& axes) {
  if (axes.empty()) {
    check<ShapeError>(shifts.rank() == 1, "roll: without axes expected one shift, got {}", shifts);
    return reshape(roll(flatten(x), shifts, {0}), x.shape());
  }
  check<ShapeError>(shifts.rank() == axes.rank(), "roll: {} shifts {} for {} axes {}",
                    shifts.rank(), shifts, axes.rank(), axes);
  RollParams p{Dims::filled(x.rank(), 0)};
  for (int i = 0; i < axes.rank(); ++i) {
    const int axis = normalize_axis(axes[i], x.rank(), "roll");
    const int64_t n = x.shape()[axis];
    if (n > 0) p.shifts[axis] = (p.shifts[axis] + shifts[i] % n) % n;
  }
  return dispatch(roll_op(), p, {x})[0];
}

Functions flip_functions() {
  return {
      {.name = "flip",
       .doc = "A copy with the elements of each of dims in opposite order.",
       .signatures = {{flip, {"input", spread("dims")}}}},
      {.name = "fliplr",
       .doc = "A copy with the elements of axis 1 in opposite order.",
       .signatures = {{[](const Tensor& x) { return flip(x, {1}); }, {"input"}}},
       .op = "flip"},
      {.name = "flipud",
       .doc = "A copy with the elements of axis 0 in opposite order.",
       .signatures = {{[](const Tensor& x) { return flip(x, {0}); }, {"input"}}},
       .op = "flip"},
      {.name = "roll",
       .doc = "The elements of axis dims[i] moved on by shifts[i], those that leave at one end "
              "coming back at the other. Without dims the one shift is of the flattened input.",
       .signatures = {{roll, {"input", "shifts", {"dims", kNone}}}}},
  };
}

}  // namespace mica

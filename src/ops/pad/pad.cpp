#include "mica/ops/pad/pad.h"

#include <algorithm>
#include <cstring>

#include "mica/core/dtype_switch.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/flip/cpu_axis_map.h"
#include "mica/ops/pad/cpu.h"
#include "mica/ops/pad/maps.h"

namespace mica {
namespace {

/// The padded size of an axis; raises where it cannot be padded so.
int64_t padded_size(const char* op, int axis, int64_t n, int64_t before, int64_t after,
                    PadMode mode) {
  int64_t size;
  check<ShapeError>(
      !__builtin_add_overflow(n, before, &size) && !__builtin_add_overflow(size, after, &size),
      "{}: axis {} of {} elements with {} before and {} after is too large", op, axis, n, before,
      after);
  if (mode == PadMode::constant) {
    check<ShapeError>(n + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0) >= 0,
                      "{}: axis {} of {} elements cannot be cut by {} before and {} after", op,
                      axis, n, before, after);
    return size;
  }
  check<ShapeError>(before >= 0 && after >= 0, "{}: {} takes amounts of at least 0, got {} and {}",
                    op, print_field(mode), before, after);
  // How far the axis itself reaches: a mirror does not show the edge again.
  const int64_t most = mode == PadMode::reflect ? std::max<int64_t>(n - 1, 0) : n;
  const bool reaches =
      mode == PadMode::replicate ? n > 0 || size == 0 : std::max(before, after) <= most;
  check<ShapeError>(reaches, "{}: {} takes at most {} elements for axis {} of {}, got {} and {}",
                    op, print_field(mode), most, axis, n, before, after);
  return size;
}

void infer(const PadParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& x = in[0].shape;
  check<ShapeError>(p.before.rank() == x.rank() && p.after.rank() == x.rank(),
                    "pad: expected {} amounts before and after, got {} and {}", x.rank(), p.before,
                    p.after);
  Shape shape = x;
  for (int i = 0; i < x.rank(); ++i)
    shape[i] = padded_size("pad", i, x[i], p.before[i], p.after[i], p.mode);
  if (p.mode == PadMode::constant) check_value("pad", p.value, in[0].dtype);
  numel(shape);  // raises where the product overflows
  out.add(shape, in[0].dtype);
}

Dims negated(const Dims& dims) {
  Dims result = dims;
  for (int64_t& d : result) d = -d;
  return result;
}

Tensors vjp(const PadParams& p, const VjpArgs& a) {
  if (p.mode == PadMode::constant)
    return {pad(a.grad[0], {.before = negated(p.before), .after = negated(p.after)})};
  Tensor dx = a.grad[0];
  for (int i = 0; i < p.before.rank(); ++i)
    if (p.before[i] != 0 || p.after[i] != 0)
      dx = pad_grad(dx, {i, a.in_specs[0].shape[i], p.before[i], p.after[i], p.mode});
  return {dx};
}

AxisMap map_of(int64_t n, int64_t before, int64_t after, PadMode mode) {
  AxisMap map;
  switch (mode) {
    case PadMode::constant: {
      const int64_t cut = std::max<int64_t>(-before, 0);
      map.add({.length = before, .constant = true});
      map.add({.length = n - cut - std::max<int64_t>(-after, 0), .first = cut});
      map.add({.length = after, .constant = true});
      break;
    }
    case PadMode::reflect:
      map.add({.length = before, .first = before, .step = -1});
      map.add({.length = n});
      map.add({.length = after, .first = n - 2, .step = -1});
      break;
    case PadMode::replicate:
      map.add({.length = before, .step = 0});
      map.add({.length = n});
      map.add({.length = after, .first = n - 1, .step = 0});
      break;
    case PadMode::circular:
      map.add({.length = before, .first = n - before});
      map.add({.length = n});
      map.add({.length = after});
      break;
  }
  return map;
}

std::shared_ptr<MappedCopy> prepare(const PadParams& p, const Specs& s) {
  return std::make_shared<MappedCopy>(s.out[0], s.in[0], pad_maps(p, s.in[0].shape));
}

void run(const PadParams& p, const MappedCopy& state, const Call& c) {
  const ElementWords value = pad_value(p, c.out[0].dtype());
  state.run(c.out[0], c.in[0], &value);
}

void infer_grad(const PadGradParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const int axis = normalize_axis(p.axis, in[0].rank(), "pad_grad");
  check(p.mode != PadMode::constant, "pad_grad: constant padding is undone by cutting");
  check<ShapeError>(p.size >= 0, "pad_grad: size must be at least 0, got {}", p.size);
  const int64_t padded = padded_size("pad_grad", axis, p.size, p.before, p.after, p.mode);
  check<ShapeError>(in[0].shape[axis] == padded,
                    "pad_grad: axis {} of dy must have {} elements, got {}", axis, padded,
                    in[0].shape);
  Shape shape = in[0].shape;
  shape[axis] = p.size;
  out.add(shape, in[0].dtype);
}

Tensors vjp_grad(const PadGradParams& p, const VjpArgs& a) {
  PadParams forward{Dims::filled(a.out_specs[0].rank(), 0), Dims::filled(a.out_specs[0].rank(), 0),
                    p.mode};
  forward.before[static_cast<int>(p.axis)] = p.before;
  forward.after[static_cast<int>(p.axis)] = p.after;
  return {pad(a.grad[0], forward)};
}

}  // namespace

AxisMaps pad_maps(const PadParams& p, const Shape& shape) {
  AxisMaps maps;
  for (int i = 0; i < shape.rank(); ++i)
    maps[static_cast<size_t>(i)] = map_of(shape[i], p.before[i], p.after[i], p.mode);
  return maps;
}

ElementWords pad_value(const PadParams& p, DType dtype) {
  return p.mode == PadMode::constant ? element_words(p.value, dtype) : ElementWords{};
}

const OpDef& pad_op() {
  static OpDef def = Op<PadParams>("pad")
                         .inputs({"x"})
                         .formats({Format::images}, {Format::images})
                         .moves()
                         .infer<infer>()
                         .vjp<vjp>({})
                         .cpu({kernel<supports_all<PadParams>, prepare, run>("runs")})
                         .build();
  return def;
}

const OpDef& pad_grad_op() {
  static OpDef def = Op<PadGradParams>("pad_grad")
                         .inputs({"dy"})
                         .outputs({"dx"})
                         .dtypes(kFloatDTypes)
                         .infer<infer_grad>()
                         .vjp<vjp_grad>({})
                         .cpu(pad_grad_cpu_kernels())
                         .build();
  return def;
}

Tensor pad(const Tensor& x, const PadParams& params) {
  const int named = std::max(params.before.rank(), params.after.rank());
  check<ShapeError>(named <= x.rank() && (params.before.rank() == named || params.before.empty()) &&
                        (params.after.rank() == named || params.after.empty()),
                    "pad: amounts {} before and {} after do not fit a tensor of shape {}",
                    params.before, params.after, x.shape());
  PadParams p{Dims::filled(x.rank(), 0), Dims::filled(x.rank(), 0), params.mode, params.value};
  const int first = x.rank() - named;
  std::copy(params.before.begin(), params.before.end(), p.before.begin() + first);
  std::copy(params.after.begin(), params.after.end(), p.after.begin() + first);
  return dispatch(pad_op(), p, {x})[0];
}

Tensor pad_grad(const Tensor& dy, const PadGradParams& params) {
  if (is_complex(dy.dtype())) return view_as_complex(pad_grad(view_as_real(dy), params));
  return dispatch(pad_grad_op(), params, {dy})[0];
}

template <>
struct Words<PadMode> {
  static constexpr std::pair<const char*, PadMode> all[] = {{"constant", PadMode::constant},
                                                            {"reflect", PadMode::reflect},
                                                            {"replicate", PadMode::replicate},
                                                            {"circular", PadMode::circular}};
};

Functions pad_functions() {
  // Pairs (before, after) of the last axis, the one before it, and so on.
  const auto outwards = [](const Tensor& x, const Ints& sides, PadMode mode,
                           std::optional<Number> value) {
    check<ShapeError>(sides.size() % 2 == 0 && sides.size() <= 2 * Dims::kMaxRank,
                      "pad: expected pairs of numbers for at most {} axes, got {} numbers",
                      Dims::kMaxRank, sides.size());
    PadParams params = {.mode = mode, .value = value.value_or(0)};
    for (size_t i = sides.size(); i > 0; i -= 2) {
      params.before.push_back(sides[i - 2]);
      params.after.push_back(sides[i - 1]);
    }
    return pad(x, params);
  };
  return {{.name = "pad",
           .doc = "input with elements added around it: pad holds pairs (before, after) of the "
                  "last axis, the one before it, and so on. mode: 'constant' (value, or 0; "
                  "negative numbers cut), 'reflect' (without the edge), 'replicate' or 'circular'.",
           .signatures = {{outwards, {"input", "pad", {"mode", "constant"}, {"value", kNone}}}},
           .offer = kFunctional}};
}

}  // namespace mica

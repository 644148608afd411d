#include "mica/ops/quantized/quantized.h"

#include <cmath>

#include "mica/core/check.h"
#include "mica/op/composed.h"
#include "mica/op/dispatch.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/quantized/kernels.h"
#include "mica/ops/where/functors.h"

namespace mica {
namespace {

enum In { kX, kWeight, kScale, kBias };

void check_operands(const char* op, const Quantization& q, std::span<const TensorSpec> in) {
  check(std::isfinite(q.scale) && q.scale > 0, "{}: x_scale must be positive, got {}", op, q.scale);
  check<DTypeError>(in[kX].dtype == DType::f32 || in[kX].dtype == q.dtype(),
                    "{}: integers {} a sign are {}, got {}", op, q.has_sign ? "with" : "without",
                    q.dtype(), in[kX].dtype);
  check<DTypeError>(in[kWeight].dtype == DType::i8, "{}: weight must be i8, got {}", op,
                    in[kWeight].dtype);
  for (const int i : {kScale, kBias}) {
    const auto& s = in[static_cast<size_t>(i)];
    if (!s.defined) continue;
    check<DTypeError>(s.dtype == DType::f32, "{}: {} must be f32, got {}", op,
                      i == kScale ? "scale" : "bias", s.dtype);
    check<ShapeError>(s.shape == Shape{in[kWeight].shape[0]},
                      "{}: {} must be [out] with out = {}, got {}", op,
                      i == kScale ? "scale" : "bias", in[kWeight].shape[0], s.shape);
  }
}

void infer_conv(const QuantizedConv2dParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Conv2dGeometry g = conv2d_geometry(out.op(), p.conv, in[kX].shape, in[kWeight].shape);
  check_operands(out.op(), p.x, in);
  out.add(g.y_shape(), DType::f32);
}

void infer_linear(const QuantizedLinearParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& x = in[kX].shape;
  const Shape& w = in[kWeight].shape;
  check<ShapeError>(w.rank() == 2, "{}: weight must be [out, in], got {}", out.op(), w);
  check<ShapeError>(x.rank() >= 1 && x.back() == w[1],
                    "{}: input must be […, in] with in = {}, got {}", out.op(), w[1], x);
  check_operands(out.op(), p.x, in);
  Shape shape = x;
  shape[x.rank() - 1] = w[0];
  out.add(shape, DType::f32);
}

/// The integers that stand for x, as f32.
int add_quantized(ComposedState& state, const Quantization& q) {
  const TensorSpec x = state.spec(state.in(kX));
  if (x.dtype != DType::f32) {
    const int wide = state.temporary(x.shape, DType::f32, x);
    state.add(find_op("copy"), CopyParams{DType::f32, x.is_channels_last()}, {state.in(kX)},
              {wide});
    return wide;
  }
  const int factor = state.temporary({}, DType::f32, state.spec(state.in(kScale)));
  state.add(find_op("full"), FullParams{{}, 1 / q.scale, DType::f32, x.device}, {}, {factor});
  const int scaled = state.temporary(x.shape, DType::f32, x);
  state.add(find_op("mul"), NoParams{}, {state.in(kX), factor}, {scaled});
  const int rounded = state.temporary(x.shape, DType::f32, x);
  state.add(find_op("round"), NoParams{}, {scaled}, {rounded});
  const int held = state.temporary(x.shape, DType::f32, x);
  state.add(find_op("clamp"), ClampParams{q.lowest(), q.highest()}, {rounded}, {held});
  return held;
}

/// The weight as f32, times the scale of each row.
int add_weight(ComposedState& state) {
  const TensorSpec w = state.spec(state.in(kWeight));
  const int wide = state.temporary(w.shape, DType::f32, w);
  state.add(find_op("copy"), CopyParams{DType::f32, w.is_channels_last()}, {state.in(kWeight)},
            {wide});
  Shape rows = Dims::filled(w.rank(), 1);
  rows[0] = w.shape[0];
  TensorSpec by_row = TensorSpec::contiguous(rows, DType::f32, w.device);
  by_row.defined = true;
  const int scaled = state.temporary(w.shape, DType::f32, w);
  state.add(find_op("mul"), NoParams{}, {wide, state.view(state.in(kScale), by_row)}, {scaled});
  return scaled;
}

template <class P>
Support supports_composed(const P&, const Specs&) {
  return Support::yes().with_contiguous({kWeight, kScale, kBias});
}

std::shared_ptr<ComposedState> prepare_conv(const QuantizedConv2dParams& p, const Specs& specs) {
  auto state = std::make_shared<ComposedState>(specs);
  state->add(find_op("conv2d"), p.conv,
             {add_quantized(*state, p.x), add_weight(*state), state->in(kBias)}, {state->out(0)});
  return state;
}

std::shared_ptr<ComposedState> prepare_linear(const QuantizedLinearParams& p, const Specs& specs) {
  auto state = std::make_shared<ComposedState>(specs);
  state->add(find_op("linear"), NoParams{},
             {add_quantized(*state, p.x), add_weight(*state), state->in(kBias)}, {state->out(0)});
  return state;
}

template <class P>
void run_composed(const P&, const ComposedState& state, const Call& call) {
  state.run(call);
}

constexpr const char* kNoGradient = "what is rounded has none; differentiate the layer in floats";

}  // namespace

Kernel quantized_conv2d_composed_kernel() {
  return kernel<supports_composed<QuantizedConv2dParams>, prepare_conv,
                run_composed<QuantizedConv2dParams>>("composed");
}
Kernel quantized_linear_composed_kernel() {
  return kernel<supports_composed<QuantizedLinearParams>, prepare_linear,
                run_composed<QuantizedLinearParams>>("composed");
}

const OpDef& quantized_conv2d_op() {
  static OpDef def =
      Op<QuantizedConv2dParams>("quantized_conv2d")
          .inputs({"x", "weight", "scale", "bias?"})
          .formats({Format::images}, {Format::images})
          .carries({}, {0})
          .dtypes(DTypeSet({DType::f32, DType::i8, DType::u8}, "f32, i8 or u8"))
          .infer<infer_conv>()
          .no_gradient(kNoGradient)
          .cpu({quantized_conv2d_composed_kernel(), quantized_conv2d_reference_kernel()})
          .build();
  return def;
}

KernelList quantized_conv2d_carrying_kernels() { return {}; }

const OpDef& quantized_linear_op() {
  static OpDef def =
      Op<QuantizedLinearParams>("quantized_linear")
          .inputs({"x", "weight", "scale", "bias?"})
          .dtypes(DTypeSet({DType::f32, DType::i8, DType::u8}, "f32, i8 or u8"))
          .infer<infer_linear>()
          .no_gradient(kNoGradient)
          .cpu({quantized_linear_composed_kernel(), quantized_linear_reference_kernel()})
          .build();
  return def;
}

Tensor quantized_conv2d(const Tensor& x, const Tensor& weight, const Tensor& scale,
                        const Tensor& bias, const QuantizedConv2dParams& params) {
  return dispatch(quantized_conv2d_op(), params, {x, weight, scale, bias})[0];
}

Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& scale,
                        const Tensor& bias, const QuantizedLinearParams& params) {
  return dispatch(quantized_linear_op(), params, {x, weight, scale, bias})[0];
}

}  // namespace mica

// Layer, RMS and group norms with a program before or after them.
#include <algorithm>

#include "mica/ops/anchored/cuda_carried.h"
#include "mica/ops/group_norm/group_norm.h"
#include "mica/ops/layer_norm/cuda_row_norm.cuh"
#include "mica/ops/layer_norm/cuda_warp_rows.h"
#include "mica/ops/layer_norm/layer_norm.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.h"
#include "mica/runtime/cuda/rows.cuh"

namespace mica {

const OpDef& layer_norm_op();
const OpDef& rms_norm_op();
const OpDef& group_norm_op();

namespace {

using row_norm::RowNorm;

struct RowNormState : KernelState {
  RowNorm norm{};
  cuda::RowThreads layout;
  bool centred = true;
  CarriedKernel carried;
};

bool is_norm(const OpDef* op) {
  return op == &layer_norm_op() || op == &rms_norm_op() || op == &group_norm_op();
}

/// The norm without its pointers.
RowNorm describe(const Anchored& a, const Specs& s) {
  const Shape& shape = s.in[0].shape;
  RowNorm norm{};
  if (a.op == &group_norm_op()) {
    const auto& p = a.params.as<GroupNormParams>();
    norm.period = p.groups;
    norm.width = shape[1] / p.groups;
    norm.size = s.in[0].numel() / std::max<int64_t>(shape[0] * shape[1], 1);
    norm.n = norm.width * norm.size;
    norm.eps = p.eps;
  } else {
    const auto& p = a.params.as<LayerNormParams>();
    norm.n = numel(p.normalized_shape);
    norm.period = 1;
    norm.size = 1;
    norm.eps = p.eps;
  }
  norm.rows = s.in[0].numel() / std::max<int64_t>(norm.n, 1);
  return norm;
}

/// Elements of a load.
int width_of(const Anchored& a, const RowNorm& norm, const Specs& s) {
  const auto v = static_cast<int>(16 / size_of(s.in[0].dtype));
  const int64_t whole = norm.size == 1 ? norm.n : norm.size;
  bool aligned = s.out[0].aligned;
  for (const TensorSpec& spec : s.in.first(static_cast<size_t>(a.op->inputs())))
    aligned = aligned && (!spec.defined || spec.aligned);
  return whole % v == 0 && aligned ? v : 1;
}

cuda::RowThreads layout_of(const RowNorm& norm, int width) {
  return cuda::row_threads(norm.n / width, row_norm::held_loads(width), row_norm::kMostThreads);
}

Support supports(const AnchoredParams& params, const Specs& s) {
  const Anchored& a = *params.call;
  if (!is_norm(a.op)) return Support::no("it carries programs beside norms of rows");
  const std::string reason = why_not_carried(params, *a.op, s, true);
  if (!reason.empty()) return Support::no(reason);
  if (!s.out[0].is_contiguous()) return Support::no("the result is not row-major");
  if (a.before.program && s.out[0].dtype != s.in[0].dtype)
    return Support::no("the operand has another dtype than what it is made of");
  const RowNorm norm = describe(a, s);
  if (norm.n == 0 || norm.rows == 0) return Support::no("there is nothing to compute");
  const int width = width_of(a, norm, s);
  const int64_t held = int64_t{layout_of(norm, width).group} * row_norm::held_loads(width) * width;
  if (a.before.program && norm.n > held) return Support::no("rows are too long to be held");
  if (s.in[1].defined && a.op->inputs() > 2 && s.in[2].defined && s.in[1].dtype != s.in[2].dtype)
    return Support::no("parameters of two dtypes");
  return Support::yes().with_contiguous((1U << a.op->inputs()) - 1);
}

std::shared_ptr<RowNormState> prepare(const AnchoredParams& params, const Specs& s) {
  const Anchored& a = *params.call;
  auto state = std::make_shared<RowNormState>();
  state->norm = describe(a, s);
  state->centred = a.op != &rms_norm_op();
  const int width = width_of(a, state->norm, s);
  state->layout = layout_of(state->norm, width);
  state->norm.group = state->layout.group;
  const DType x = s.in[0].dtype;
  const DType parameter = s.in[1].defined                         ? s.in[1].dtype
                          : a.op->inputs() > 2 && s.in[2].defined ? s.in[2].dtype
                                                                  : x;
  const std::string type = info_of(x).source;
  const std::string call = (TemplateCall("mica::row_norm::normalise")
                            << type << std::string(info_of(parameter).source)
                            << std::string(x == DType::f64 ? "double" : "float") << width)
                               .text();
  const std::string ends = a.after.program ? "mica::row_norm::Nothing{}, Carried{end}"
                                           : "Carried{end}, mica::row_norm::Store<" + type + ">{y}";
  state->carried = load_carried(
      params, s,
      {.header = "mica/ops/layer_norm/cuda_row_norm.cuh",
       .parameters = "const __grid_constant__ mica::row_norm::RowNorm p, " + type + "* y",
       .body = "mica::wait_for_inputs();\n  " + call + "(p, " + ends + ");",
       .bounds = std::to_string(std::max(row_norm::kMostThreads, state->layout.threads))});
  return state;
}

void run(const AnchoredParams& params, const RowNormState& state, const Call& call) {
  const Anchored& a = *params.call;
  const auto data = [&](int i) -> void* {
    if (i >= a.op->inputs() || !call.in[static_cast<size_t>(i)].defined()) return nullptr;
    return call.in[static_cast<size_t>(i)].data;
  };
  RowNorm p = state.norm;
  p.x = data(0);
  p.weight = data(1);
  p.bias = data(2);
  auto next = static_cast<size_t>(a.results());
  if (state.centred) p.mean = call.out[next++].data;
  p.rstd = call.out[next].data;
  const ProgrammaticLaunch overlap;
  call.encoder->launch(
      reinterpret_cast<void (*)(RowNorm, void*, fused::KernelArgs)>(state.carried.kernel),
      cuda::row_grid(p.rows, state.layout), static_cast<unsigned>(state.layout.threads), 0, p,
      call.out[0].data, state.carried.arguments(params, call));
}

}  // namespace

KernelList layer_norm_carrying_cuda_kernels() {
  return {layer_norm_carrying_sum_kernel(), layer_norm_grad_carrying_sum_kernel(),
          kernel<supports, prepare, run>("row_norm")};
}

}  // namespace mica

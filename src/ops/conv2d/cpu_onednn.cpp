#include <dnnl.hpp>

#include <optional>

#include "mica/op/settings.h"
#include "mica/ops/conv2d/geometry.h"

namespace mica {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Forward = dnnl::convolution_forward;
using DataGradient = dnnl::convolution_backward_data;
using WeightGradient = dnnl::convolution_backward_weights;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  return s;
}

struct Layout {
  Conv2dGeometry g;
  bool channels_last = false;
  bool bias = false;

  memory::desc x() const { return data({g.n, g.c, g.h, g.w}); }
  memory::desc y() const { return data({g.n, g.o, g.oh, g.ow}); }
  memory::desc b() const {
    return bias ? memory::desc({g.o}, memory::data_type::f32, Tag::a) : memory::desc();
  }
  /// The weight in row-major order, or in whatever order the primitive likes best.
  memory::desc weight(bool any) const {
    if (g.groups == 1)
      return {{g.o, g.c, g.kh, g.kw}, memory::data_type::f32, any ? Tag::any : Tag::oihw};
    return {{g.groups, g.group_out(), g.group_in(), g.kh, g.kw},
            memory::data_type::f32,
            any ? Tag::any : Tag::goihw};
  }
  memory::dims stride() const { return {g.stride.h, g.stride.w}; }
  memory::dims padding() const { return {g.padding.h, g.padding.w}; }
  memory::dims dilation() const {
    return {g.dilation.h - 1, g.dilation.w - 1};
  }  // oneDNN's 0 is none

 private:
  memory::desc data(const memory::dims& dims) const {
    return {dims, memory::data_type::f32, channels_last ? Tag::nhwc : Tag::nchw};
  }
};

// The caller gives the scratch memory, so that one primitive can run in several threads.
dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

Forward::primitive_desc describe_forward(const Layout& l) {
  return {{dnnl::prop_kind::forward_training, kAlgorithm, l.x(), l.weight(true), l.b(), l.y(),
           l.stride(), l.dilation(), l.padding(), l.padding()},
          attributes(),
          engine()};
}

DataGradient::primitive_desc describe_dgrad(const Layout& l) {
  return {{kAlgorithm, l.x(), l.weight(true), l.y(), l.stride(), l.dilation(), l.padding(),
           l.padding()},
          attributes(),
          engine(),
          describe_forward(l)};
}

WeightGradient::primitive_desc describe_wgrad(const Layout& l) {
  return {{kAlgorithm, l.x(), l.weight(true), l.y(), l.stride(), l.dilation(), l.padding(),
           l.padding()},
          attributes(),
          engine(),
          describe_forward(l)};
}

// Why oneDNN should not compute this, if it should not; `describe` makes the primitive's
// descriptor.
template <class F>
std::optional<std::string> refusal(const Specs& specs, F&& describe) {
  if (specs.out[0].dtype != DType::f32) return "computes f32 only";
  for (const auto& list : {specs.in, specs.out})
    for (const TensorSpec& s : list)
      if (s.defined && s.numel() == 0) return "takes no empty tensors";
  try {
    const std::string implementation = describe().impl_info_str();
    if (implementation.find("ref") != std::string::npos)
      return "oneDNN has its reference implementation only (" + implementation + ")";
  } catch (const dnnl::error& e) {
    return std::string("oneDNN cannot: ") + e.message;
  }
  return std::nullopt;
}

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Workspace: the weight in the primitive's order where that is another one, then the scratch
// memories of the primitive and of the reordering, which never run at the same time.
struct State : KernelState {
  dnnl::primitive primitive;
  dnnl::primitive reorder;  ///< empty where the weight is taken as it is
  memory::desc x, y, b, weight, own_weight, scratch, reorder_scratch;

  bool reorders() const { return static_cast<bool>(reorder); }
  memory at(const memory::desc& desc, void* data) const { return {desc, engine(), data}; }
  std::byte* scratch_data(const Call& call) const {
    return static_cast<std::byte*>(call.workspace) +
           (reorders() ? padded(own_weight.get_size()) : 0);
  }
  memory weight_memory(const Call& call, const Arg& arg) const {
    return reorders() ? at(own_weight, call.workspace) : at(weight, arg.data);
  }
  void run_reorder(const Call& call, const memory& from, const memory& to) const {
    reorder.execute(stream(), {{DNNL_ARG_FROM, from},
                               {DNNL_ARG_TO, to},
                               {DNNL_ARG_SCRATCHPAD, at(reorder_scratch, scratch_data(call))}});
  }
};

enum class Weight { read, written };

template <class Primitive, class Desc>
std::shared_ptr<State> make_state(const Layout& l, const Desc& desc, const memory::desc& own_weight,
                                  Weight weight) {
  auto s = std::make_shared<State>();
  s->primitive = Primitive(desc);
  s->x = l.x();
  s->y = l.y();
  s->b = l.b();
  s->weight = l.weight(false);
  s->own_weight = own_weight;
  s->scratch = desc.scratchpad_desc();
  size_t bytes = s->scratch.get_size();
  if (own_weight != s->weight) {
    const auto& from = weight == Weight::read ? s->weight : own_weight;
    const auto& to = weight == Weight::read ? own_weight : s->weight;
    const dnnl::reorder::primitive_desc reorder(engine(), from, engine(), to, attributes());
    s->reorder = dnnl::reorder(reorder);
    s->reorder_scratch = reorder.scratchpad_desc();
    bytes = std::max(bytes, s->reorder_scratch.get_size()) + padded(own_weight.get_size());
  }
  s->workspace_bytes = bytes;
  return s;
}

Layout forward_layout(const Conv2dParams& params, const Specs& specs) {
  return {conv2d_geometry("conv2d", params, specs.in[0].shape, specs.in[1].shape),
          specs.out[0].is_channels_last(), specs.in[2].defined};
}

// In row-major order oneDNN multiplies matrices too, and the im2col kernel does so faster until
// windows are wide, where there are images enough for the threads. Measured with one thread on a
// Zen 4 core, GFLOP/s of oneDNN and im2col forward: LeNet's layers 43, 57 and 63, 77; 64 channels
// 3x3 on 56x56 80, 91; 256 channels 3x3 on 14x14 94, 85; 1x1 113, 97.
Support rate(const Layout& l) {
  const bool im2col_is_faster =
      !l.channels_last && !l.g.pointwise() && l.g.window() < 1024 && l.g.n >= num_threads();
  return im2col_is_faster ? Support::possible() : Support::yes();
}

// The first input in the output's format, the others row-major.
Support wanted_layouts(Support support, const Specs& specs) {
  if (specs.out[0].is_channels_last())
    return std::move(support).with_channels_last(1).with_contiguous(6);
  if (specs.out[0].is_contiguous()) return std::move(support).with_contiguous(7);
  return Support::no("writes row-major and channels_last results only");
}

Support supports(const Conv2dParams& params, const Specs& specs) {
  const Layout l = forward_layout(params, specs);
  if (const auto why = refusal(specs, [&] { return describe_forward(l); }))
    return Support::no(*why);
  return wanted_layouts(rate(l), specs);
}

std::shared_ptr<State> prepare(const Conv2dParams& params, const Specs& specs) {
  const Layout l = forward_layout(params, specs);
  const auto desc = describe_forward(l);
  return make_state<Forward>(l, desc, desc.weights_desc(), Weight::read);
}

void run(const Conv2dParams&, const State& s, const Call& call) {
  const memory weight = s.weight_memory(call, call.in[1]);
  if (s.reorders()) s.run_reorder(call, s.at(s.weight, call.in[1].data), weight);
  std::unordered_map<int, memory> args = {
      {DNNL_ARG_SRC, s.at(s.x, call.in[0].data)},
      {DNNL_ARG_WEIGHTS, weight},
      {DNNL_ARG_DST, s.at(s.y, call.out[0].data)},
      {DNNL_ARG_SCRATCHPAD, s.at(s.scratch, s.scratch_data(call))}};
  if (call.in[2].defined()) args.emplace(DNNL_ARG_BIAS, s.at(s.b, call.in[2].data));
  s.primitive.execute(stream(), args);
}

Layout dgrad_layout(const Conv2dGradParams& params, const Specs& specs) {
  return {conv2d_geometry("conv2d_dgrad", params.conv, params.shape, specs.in[1].shape),
          specs.out[0].is_channels_last(), false};
}

Support supports_dgrad(const Conv2dGradParams& params, const Specs& specs) {
  const Layout l = dgrad_layout(params, specs);
  if (const auto why = refusal(specs, [&] { return describe_dgrad(l); })) return Support::no(*why);
  // For few channels oneDNN's channels_last kernel is the slower one: 22 GFLOP/s against 77 for the
  // 7x7 convolution of 3 channels, 72 against 82 for LeNet's second layer.
  const bool few = l.channels_last && l.g.groups == 1 && l.g.c < 32 && l.g.n >= num_threads();
  return wanted_layouts(few ? Support::possible() : rate(l), specs);
}

std::shared_ptr<State> prepare_dgrad(const Conv2dGradParams& params, const Specs& specs) {
  const Layout l = dgrad_layout(params, specs);
  const auto desc = describe_dgrad(l);
  return make_state<DataGradient>(l, desc, desc.weights_desc(), Weight::read);
}

void run_dgrad(const Conv2dGradParams&, const State& s, const Call& call) {
  const memory weight = s.weight_memory(call, call.in[1]);
  if (s.reorders()) s.run_reorder(call, s.at(s.weight, call.in[1].data), weight);
  s.primitive.execute(stream(), {{DNNL_ARG_DIFF_DST, s.at(s.y, call.in[0].data)},
                                 {DNNL_ARG_WEIGHTS, weight},
                                 {DNNL_ARG_DIFF_SRC, s.at(s.x, call.out[0].data)},
                                 {DNNL_ARG_SCRATCHPAD, s.at(s.scratch, s.scratch_data(call))}});
}

Layout wgrad_layout(const Conv2dGradParams& params, const Specs& specs) {
  return {conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape),
          wgrad_channels_last(specs), false};
}

Support supports_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  const Layout l = wgrad_layout(params, specs);
  if (const auto why = refusal(specs, [&] { return describe_wgrad(l); })) return Support::no(*why);
  if (!specs.out[0].is_contiguous()) return Support::no("writes a row-major gradient only");
  return l.channels_last ? rate(l).with_channels_last(3) : rate(l).with_contiguous(3);
}

std::shared_ptr<State> prepare_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  const Layout l = wgrad_layout(params, specs);
  const auto desc = describe_wgrad(l);
  return make_state<WeightGradient>(l, desc, desc.diff_weights_desc(), Weight::written);
}

void run_wgrad(const Conv2dGradParams&, const State& s, const Call& call) {
  const memory weight = s.weight_memory(call, call.out[0]);
  s.primitive.execute(stream(), {{DNNL_ARG_DIFF_DST, s.at(s.y, call.in[0].data)},
                                 {DNNL_ARG_SRC, s.at(s.x, call.in[1].data)},
                                 {DNNL_ARG_DIFF_WEIGHTS, weight},
                                 {DNNL_ARG_SCRATCHPAD, s.at(s.scratch, s.scratch_data(call))}});
  if (s.reorders()) s.run_reorder(call, weight, s.at(s.weight, call.out[0].data));
}

}  // namespace

Kernel conv2d_onednn_kernel() { return kernel<supports, prepare, run>("onednn"); }
Kernel conv2d_dgrad_onednn_kernel() {
  return kernel<supports_dgrad, prepare_dgrad, run_dgrad>("onednn");
}
Kernel conv2d_wgrad_onednn_kernel() {
  return kernel<supports_wgrad, prepare_wgrad, run_wgrad>("onednn");
}

}  // namespace mica

#include "mica/ops/conv/cpu_onednn.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/runtime/cpu/onednn.h"

namespace mica::onednn {
namespace {

using Tag = memory::format_tag;
using Forward = dnnl::convolution_forward;
using DataGradient = dnnl::convolution_backward_data;
using WeightGradient = dnnl::convolution_backward_weights;

Tag row_major(size_t rank) {
  constexpr Tag kTags[] = {Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde, Tag::abcdef};
  return kTags[rank - 1];
}

memory::desc image(const Convolution& c, const memory::dims& dims) {
  return {dims, c.type, c.channels_last ? Tag::nhwc : row_major(dims.size())};
}
memory::desc bias(const Convolution& c) {
  return c.bias ? memory::desc({c.y[1]}, c.type, Tag::a) : memory::desc();
}
memory::desc plain_weight(const Convolution& c) {
  return {c.weight, c.type, row_major(c.weight.size())};
}
/// In whatever order the primitive likes best.
memory::desc any_weight(const Convolution& c) { return {c.weight, c.type, Tag::any}; }

// The caller gives the scratch memory, so that one primitive can run in several threads.
dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::primitive_attr forward_attributes(const Convolution& c) {
  dnnl::primitive_attr attr = attributes();
  attr.set_post_ops(c.after.ops);
  return attr;
}

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

Forward::primitive_desc describe_forward(const Convolution& c) {
  return {{dnnl::prop_kind::forward_training, kAlgorithm, image(c, c.x), any_weight(c), bias(c),
           image(c, c.y), c.stride, c.dilation, c.padding, c.padding},
          forward_attributes(c),
          engine()};
}

template <class Primitive>
typename Primitive::primitive_desc describe_gradient(const Convolution& c) {
  return {{kAlgorithm, image(c, c.x), any_weight(c), image(c, c.y), c.stride, c.dilation, c.padding,
           c.padding},
          attributes(),
          engine(),
          describe_forward(c)};
}

/// A description that oneDNN has more than its reference implementation of.
template <class Description>
Description checked(const Description& description) {
  const std::string name = description.impl_info_str();
  check<Unsupported>(name.find("ref") == std::string::npos,
                     "oneDNN has its reference implementation only ({})", name);
  return description;
}

/// Its convolutions by matrix products compute what comes after them element by element: 1x1 from
/// 16 to 32 channels of 112x112 took 0.16 ms on one core with AVX-512, and with a ReLU after it 2.3
/// ms.
void check_post_ops(const Convolution& c, const Forward::primitive_desc& description) {
  const std::string name = description.impl_info_str();
  check<Unsupported>(c.after.ops.len() == 0 || name.find("gemm") == std::string::npos,
                     "oneDNN computes what comes after it by its reference ({})", name);
}

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

enum class Weight { read, written };

template <class Primitive>
std::shared_ptr<State> make_state(const Convolution& c,
                                  const typename Primitive::primitive_desc& desc,
                                  const memory::desc& own_weight, Weight weight) {
  auto s = std::make_shared<State>();
  s->primitive = Primitive(desc);
  s->x = image(c, c.x);
  s->y = image(c, c.y);
  s->bias = bias(c);
  s->weight = plain_weight(c);
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
    if (weight == Weight::read) {
      s->kept_bytes = own_weight.get_size();
      s->kept_of.insert(1);
    }
  }
  s->workspace_bytes = bytes;
  return s;
}

// Workspace: the weight in the primitive's order where that is another one, then the scratch
// memories of the primitive and of the reordering, which never run at the same time.
struct Run {
  const State& s;
  const Call& call;

  bool reorders() const { return static_cast<bool>(s.reorder); }
  static memory at(const memory::desc& desc, void* data) { return {desc, engine(), data}; }
  memory scratch(const memory::desc& desc) const {
    auto* data = static_cast<std::byte*>(call.workspace);
    return at(desc, data + (reorders() ? padded(s.own_weight.get_size()) : 0));
  }
  memory weight(const Arg& arg) const {
    return reorders() ? at(s.own_weight, call.workspace) : at(s.weight, arg.data);
  }
  void reorder(const memory& from, const memory& to) const {
    s.reorder.execute(stream(), {{DNNL_ARG_FROM, from},
                                 {DNNL_ARG_TO, to},
                                 {DNNL_ARG_SCRATCHPAD, scratch(s.reorder_scratch)}});
  }
  /// The weight in the primitive's order.
  memory read_weight(const Arg& arg) const {
    if (call.kept != nullptr) return at(s.own_weight, call.kept);
    const memory own = weight(arg);
    if (reorders()) reorder(at(s.weight, arg.data), own);
    return own;
  }
};

}  // namespace

memory::data_type type_of(const Specs& specs) {
  return specs.out[0].dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

std::optional<std::string> refusal(const Specs& specs) {
  const DType dtype = specs.out[0].dtype;
  if (dtype == DType::bf16 && !has_bf16_products()) return "this processor has no products of bf16";
  if (dtype != DType::f32 && dtype != DType::bf16) return "computes f32 and bf16 only";
  for (const auto& list : {specs.in, specs.out})
    for (const TensorSpec& s : list)
      if (s.defined && s.numel() == 0) return "takes no empty tensors";
  return std::nullopt;
}

std::optional<memory::desc> beside_y(const Convolution& conv, const TensorSpec& operand) {
  const memory::dims ones(conv.y.size(), 1);
  const auto row_major_desc = [&](const memory::dims& dims) {
    return memory::desc(dims, conv.type, row_major(dims.size()));
  };
  if (operand.numel() == 1) return row_major_desc(ones);
  if (std::equal(operand.shape.begin(), operand.shape.end(), conv.y.begin(), conv.y.end()))
    return image(conv, conv.y);
  // One number for each channel: (…, C, 1, …).
  const int channel = operand.rank() - static_cast<int>(conv.y.size()) + 1;
  if (channel < 0 || operand.numel() != conv.y[1] || operand.shape[channel] != conv.y[1] ||
      !operand.is_contiguous())
    return std::nullopt;
  memory::dims dims = ones;
  dims[1] = conv.y[1];
  return row_major_desc(dims);
}

std::shared_ptr<State> prepare(const Convolution& conv, Direction direction) try {
  switch (direction) {
    case Direction::forward: {
      const auto desc = checked(describe_forward(conv));
      check_post_ops(conv, desc);
      auto state = make_state<Forward>(conv, desc, desc.weights_desc(), Weight::read);
      state->after = conv.after;
      return state;
    }
    case Direction::dgrad: {
      const auto desc = checked(describe_gradient<DataGradient>(conv));
      return make_state<DataGradient>(conv, desc, desc.weights_desc(), Weight::read);
    }
    case Direction::wgrad:
      break;
  }
  const auto desc = checked(describe_gradient<WeightGradient>(conv));
  return make_state<WeightGradient>(conv, desc, desc.diff_weights_desc(), Weight::written);
} catch (const dnnl::error& e) {
  fail<Unsupported>("oneDNN cannot: {}", e.message);
}

void run_forward(const State& s, const Call& call) {
  const Run run{s, call};
  std::unordered_map<int, memory> args = {{DNNL_ARG_SRC, run.at(s.x, call.in[0].data)},
                                          {DNNL_ARG_WEIGHTS, run.read_weight(call.in[1])},
                                          {DNNL_ARG_DST, run.at(s.y, call.out[0].data)},
                                          {DNNL_ARG_SCRATCHPAD, run.scratch(s.scratch)}};
  if (call.in[2].defined()) args.emplace(DNNL_ARG_BIAS, run.at(s.bias, call.in[2].data));
  s.after.add_arguments(engine(), call, args);
  s.primitive.execute(stream(), args);
}

void keep_weight(const State& s, const Call& call) {
  const Run run{s, call};
  run.reorder(run.at(s.weight, call.in[1].data), run.at(s.own_weight, call.kept));
}

void run_dgrad(const State& s, const Call& call) {
  const Run run{s, call};
  s.primitive.execute(stream(), {{DNNL_ARG_DIFF_DST, run.at(s.y, call.in[0].data)},
                                 {DNNL_ARG_WEIGHTS, run.read_weight(call.in[1])},
                                 {DNNL_ARG_DIFF_SRC, run.at(s.x, call.out[0].data)},
                                 {DNNL_ARG_SCRATCHPAD, run.scratch(s.scratch)}});
}

void run_wgrad(const State& s, const Call& call) {
  const Run run{s, call};
  const memory weight = run.weight(call.out[0]);
  s.primitive.execute(stream(), {{DNNL_ARG_DIFF_DST, run.at(s.y, call.in[0].data)},
                                 {DNNL_ARG_SRC, run.at(s.x, call.in[1].data)},
                                 {DNNL_ARG_DIFF_WEIGHTS, weight},
                                 {DNNL_ARG_SCRATCHPAD, run.scratch(s.scratch)}});
  if (run.reorders()) run.reorder(weight, run.at(s.weight, call.out[0].data));
}

}  // namespace mica::onednn

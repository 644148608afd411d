// Products of bytes by oneDNN, where the processor sums them without overflow (VNNI).
#include <algorithm>
#include <dnnl.hpp>

#include "mica/core/check.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/quantized/kernels.h"
#include "mica/runtime/cpu/onednn.h"

namespace mica {
namespace {

using dnnl::memory;
using onednn::engine;
using onednn::stream;
using Tag = memory::format_tag;
using Type = memory::data_type;

/// Older ones add pairs of products in 16 bits, which may not hold them.
bool has_vnni() {
  static const bool has = [] {
    using Isa = dnnl::cpu_isa;
    switch (dnnl::get_effective_cpu_isa()) {
      case Isa::all:
      case Isa::sse41:
      case Isa::avx:
      case Isa::avx2:
      case Isa::avx512_mic:
      case Isa::avx512_mic_4ops:
      case Isa::avx512_core:
        return false;
      default:
        return true;
    }
  }();
  return has;
}

/// x as bytes where it is not given so, the weight in the primitive's order, the product, and its
/// result in the order of y where that is another: each a piece of the workspace.
struct State : KernelState {
  struct Piece {
    memory::desc desc;
    size_t at = 0;
  };
  dnnl::primitive quantize, pack, compute, unpack;  ///< all but compute may be empty
  memory::desc x, weight, y, by_channel;
  Piece bytes, packed, product;
  memory::desc quantize_scratch, pack_scratch, compute_scratch, unpack_scratch;
  size_t scratch_at = 0;
};

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

/// Times the scale of each channel, plus its bias.
dnnl::primitive_attr finishing(const memory::desc& by_channel, bool bias) {
  dnnl::post_ops after;
  after.append_binary(dnnl::algorithm::binary_mul, by_channel);
  if (bias) after.append_binary(dnnl::algorithm::binary_add, by_channel);
  dnnl::primitive_attr attr = attributes();
  attr.set_post_ops(after);
  return attr;
}

Type type_of(const Quantization& q) { return q.has_sign ? Type::s8 : Type::u8; }
Type type_of(const Quantization& q, DType x) { return x == DType::f32 ? Type::f32 : type_of(q); }

template <class Description>
void check_fast(const Description& description) {
  const std::string name = description.impl_info_str();
  check<Unsupported>(name.find("ref") == std::string::npos,
                     "oneDNN has its reference implementation only ({})", name);
}

/// Fills in all but the primitive that computes.
void add_passes(State& s, const Quantization& q, const memory::desc& bytes,
                const memory::desc& packed, const memory::desc& product) {
  size_t end = 0;
  size_t scratch = s.compute_scratch.get_size();
  const auto piece = [&](const memory::desc& desc) {
    constexpr size_t kAlignment = 64;
    const size_t at = end;
    end += (desc.get_size() + kAlignment - 1) / kAlignment * kAlignment;
    return State::Piece{desc, at};
  };
  if (bytes != s.x) {
    dnnl::primitive_attr scaled = attributes();
    if (s.x.data_type() == Type::f32)
      scaled.set_output_scales(0, {static_cast<float>(1 / q.scale)});
    const dnnl::reorder::primitive_desc quantize(engine(), s.x, engine(), bytes, scaled);
    s.quantize = dnnl::reorder(quantize);
    s.quantize_scratch = quantize.scratchpad_desc();
    scratch = std::max(scratch, s.quantize_scratch.get_size());
    s.bytes = piece(bytes);
  }
  if (packed != s.weight) {
    const dnnl::reorder::primitive_desc pack(engine(), s.weight, engine(), packed, attributes());
    s.pack = dnnl::reorder(pack);
    s.pack_scratch = pack.scratchpad_desc();
    scratch = std::max(scratch, s.pack_scratch.get_size());
    s.packed = piece(packed);
    s.kept_bytes = packed.get_size();
    s.kept_of.insert(1);
  }
  if (product != s.y) {
    const dnnl::reorder::primitive_desc unpack(engine(), product, engine(), s.y, attributes());
    s.unpack = dnnl::reorder(unpack);
    s.unpack_scratch = unpack.scratchpad_desc();
    scratch = std::max(scratch, s.unpack_scratch.get_size());
    s.product = piece(product);
  }
  s.scratch_at = end;
  s.workspace_bytes = end + scratch;
}

memory at(const memory::desc& desc, void* data) { return {desc, engine(), data}; }

void run_state(const State& s, const Call& call) {
  auto* workspace = static_cast<std::byte*>(call.workspace);
  const auto piece = [&](const State::Piece& p) { return at(p.desc, workspace + p.at); };
  const auto scratch = [&](const memory::desc& d) { return at(d, workspace + s.scratch_at); };
  const auto reorder = [&](const dnnl::primitive& primitive, const memory& from, const memory& to,
                           const memory::desc& room) {
    primitive.execute(
        stream(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, scratch(room)}});
  };
  memory x = at(s.x, call.in[0].data);
  if (s.quantize) {
    const memory bytes = piece(s.bytes);
    reorder(s.quantize, x, bytes, s.quantize_scratch);
    x = bytes;
  }
  memory weight = at(s.weight, call.in[1].data);
  if (s.pack && call.kept != nullptr) {
    weight = at(s.packed.desc, call.kept);
  } else if (s.pack) {
    const memory packed = piece(s.packed);
    reorder(s.pack, weight, packed, s.pack_scratch);
    weight = packed;
  }
  const memory y = at(s.y, call.out[0].data);
  const memory product = s.unpack ? piece(s.product) : y;
  std::unordered_map<int, memory> args = {
      {DNNL_ARG_SRC, x},
      {DNNL_ARG_WEIGHTS, weight},
      {DNNL_ARG_DST, product},
      {DNNL_ARG_SCRATCHPAD, scratch(s.compute_scratch)},
      {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, at(s.by_channel, call.in[2].data)}};
  if (call.in[3].defined())
    args.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1,
                 at(s.by_channel, call.in[3].data));
  s.compute.execute(stream(), args);
  if (s.unpack) reorder(s.unpack, product, y, s.unpack_scratch);
}

void keep_weight(const State& s, const Call& call) {
  auto* scratch = static_cast<std::byte*>(call.workspace) + s.scratch_at;
  s.pack.execute(stream(), {{DNNL_ARG_FROM, at(s.weight, call.in[1].data)},
                            {DNNL_ARG_TO, at(s.packed.desc, call.kept)},
                            {DNNL_ARG_SCRATCHPAD, at(s.pack_scratch, scratch)}});
}

Support refused(const Specs& specs) {
  if (!has_vnni()) return Support::no("the processor has no instructions that sum bytes exactly");
  for (const auto& list : {specs.in, specs.out})
    for (const TensorSpec& t : list)
      if (t.defined && t.numel() == 0) return Support::no("takes no empty tensors");
  return Support::yes();
}

Support supports_conv(const QuantizedConv2dParams&, const Specs& specs) {
  Support support = refused(specs);
  if (support.kind == Support::Kind::no) return support;
  const bool last = specs.in[0].is_channels_last();
  if (!last && !specs.in[0].is_contiguous()) support = std::move(support).with_contiguous({0});
  if (!specs.out[0].is_channels_last() && !specs.out[0].is_contiguous())
    return Support::no("writes row-major and channels_last results only");
  return std::move(support).with_contiguous({1, 2, 3});
}

std::shared_ptr<State> prepare_conv(const QuantizedConv2dParams& p, const Specs& specs) try {
  const Conv2dGeometry g =
      conv2d_geometry("quantized_conv2d", p.conv, specs.in[0].shape, specs.in[1].shape);
  auto s = std::make_shared<State>();
  const memory::dims x = {g.n, g.c, g.h, g.w};
  const memory::dims y = {g.n, g.o, g.oh, g.ow};
  memory::dims w = {g.group_out(), g.group_in(), g.kh, g.kw};
  if (g.groups > 1) w.insert(w.begin(), g.groups);
  const auto order = [](const TensorSpec& t) {
    return t.is_channels_last() ? Tag::nhwc : Tag::nchw;
  };
  s->x = {x, type_of(p.x, specs.in[0].dtype), order(specs.in[0])};
  s->y = {y, Type::f32, order(specs.out[0])};
  s->weight = {w, Type::s8, g.groups > 1 ? Tag::abcde : Tag::abcd};
  s->by_channel = {{1, g.o, 1, 1}, Type::f32, Tag::abcd};
  const memory::desc bytes(x, type_of(p.x), Tag::nhwc);
  const memory::desc product(y, Type::f32, Tag::nhwc);
  const dnnl::convolution_forward::primitive_desc desc(
      {dnnl::prop_kind::forward_inference,
       dnnl::algorithm::convolution_direct,
       bytes,
       {w, Type::s8, Tag::any},
       product,
       {g.stride.h, g.stride.w},
       {g.dilation.h - 1, g.dilation.w - 1},
       {g.padding.h, g.padding.w},
       {g.padding.h, g.padding.w}},
      finishing(s->by_channel, specs.in[3].defined), engine());
  check_fast(desc);
  s->compute = dnnl::convolution_forward(desc);
  s->compute_scratch = desc.scratchpad_desc();
  add_passes(*s, p.x, bytes, desc.weights_desc(), product);
  return s;
} catch (const dnnl::error& e) {
  fail<Unsupported>("oneDNN cannot: {}", e.message);
}

void run_conv(const QuantizedConv2dParams&, const State& s, const Call& call) {
  run_state(s, call);
}
void keep_conv(const QuantizedConv2dParams&, const State& s, const Call& call) {
  keep_weight(s, call);
}

Support supports_linear(const QuantizedLinearParams&, const Specs& specs) {
  Support support = refused(specs);
  if (support.kind == Support::Kind::no) return support;
  if (!specs.out[0].is_contiguous()) return Support::no("writes row-major results only");
  return std::move(support).with_contiguous({0, 1, 2, 3});
}

std::shared_ptr<State> prepare_linear(const QuantizedLinearParams& p, const Specs& specs) try {
  const int64_t n = specs.in[1].shape[0];
  const int64_t k = specs.in[1].shape[1];
  const int64_t rows = specs.out[0].numel() / n;
  auto s = std::make_shared<State>();
  s->x = {{rows, k}, type_of(p.x, specs.in[0].dtype), Tag::ab};
  s->y = {{rows, n}, Type::f32, Tag::ab};
  s->weight = {{k, n}, Type::s8, Tag::ba};
  s->by_channel = {{1, n}, Type::f32, Tag::ab};
  const memory::desc bytes({rows, k}, type_of(p.x), Tag::ab);
  const dnnl::matmul::primitive_desc desc({bytes, {{k, n}, Type::s8, Tag::any}, s->y},
                                          finishing(s->by_channel, specs.in[3].defined), engine());
  check_fast(desc);
  s->compute = dnnl::matmul(desc);
  s->compute_scratch = desc.scratchpad_desc();
  add_passes(*s, p.x, bytes, desc.weights_desc(), s->y);
  return s;
} catch (const dnnl::error& e) {
  fail<Unsupported>("oneDNN cannot: {}", e.message);
}

void run_linear(const QuantizedLinearParams&, const State& s, const Call& call) {
  run_state(s, call);
}
void keep_linear(const QuantizedLinearParams&, const State& s, const Call& call) {
  keep_weight(s, call);
}

}  // namespace

Kernel quantized_conv2d_onednn_kernel() {
  return kernel<supports_conv, prepare_conv, run_conv, keep_conv>("onednn");
}
Kernel quantized_linear_onednn_kernel() {
  return kernel<supports_linear, prepare_linear, run_linear, keep_linear>("onednn");
}

}  // namespace mica

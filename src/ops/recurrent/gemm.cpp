#include "mica/ops/recurrent/gemm.h"

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

std::byte* offset(void* base, size_t bytes) { return static_cast<std::byte*>(base) + bytes; }

const OpDef& op_of(RecurrentProduct which) {
  switch (which) {
    case RecurrentProduct::input:
    case RecurrentProduct::step:
    case RecurrentProduct::project:
      return find_op("linear");
    case RecurrentProduct::step_back:
    case RecurrentProduct::project_back:
    case RecurrentProduct::input_back:
      return find_op("matmul");
    default:
      return find_op("linear_wgrad");
  }
}

/// Of the rows of the input's product on the CPU: what a chunk gives stays in the cache until it is
/// all there.
int64_t input_chunks(int64_t rows) {
  constexpr int64_t kRows = 512;
  int64_t chunks = std::max<int64_t>(1, rows / kRows);
  while (rows % chunks != 0) --chunks;
  return chunks;
}

}  // namespace

TensorSpec RecurrentProducts::matrix(int64_t rows, int64_t cols) const {
  TensorSpec spec = TensorSpec::contiguous({rows, cols}, dtype, device_);
  // A step's matrix lies anywhere in that of all steps.
  spec.aligned = rows * cols * static_cast<int64_t>(size_of(dtype)) % 16 == 0;
  return spec;
}

void RecurrentProducts::add(RecurrentProduct which, bool bias, int64_t chunks) {
  const RecurrentProblem& p = problem;
  const int64_t all = p.steps * p.batch;
  Entry& e = entries_[static_cast<size_t>(which)];
  switch (which) {
    case RecurrentProduct::input:
      e.in = {matrix(all / chunks, p.inputs), matrix(p.rows(), p.inputs), {}};
      e.out[0] = matrix(all / chunks, p.rows());
      if (bias) e.in[2] = TensorSpec::contiguous({p.rows()}, dtype, device_);
      break;
    case RecurrentProduct::step:
      e.in = {matrix(p.batch, p.outputs), matrix(p.rows(), p.outputs), {}};
      e.out[0] = matrix(p.batch, p.rows());
      break;
    case RecurrentProduct::project:
      e.in = {matrix(p.batch, p.units), matrix(p.outputs, p.units), {}};
      e.out[0] = matrix(p.batch, p.outputs);
      break;
    case RecurrentProduct::step_back:
      e.in = {matrix(p.batch, p.rows()), matrix(p.rows(), p.outputs), {}};
      e.out[0] = matrix(p.batch, p.outputs);
      break;
    case RecurrentProduct::project_back:
      e.in = {matrix(p.batch, p.outputs), matrix(p.outputs, p.units), {}};
      e.out[0] = matrix(p.batch, p.units);
      break;
    case RecurrentProduct::input_back:
      e.in = {matrix(all, p.rows()), matrix(p.rows(), p.inputs), {}};
      e.out[0] = matrix(all, p.inputs);
      break;
    case RecurrentProduct::ih:
      e.in = {matrix(all, p.rows()), matrix(all, p.inputs), {}};
      break;
    case RecurrentProduct::hh:
      e.in = {matrix(all, p.rows()), matrix(all, p.outputs), {}};
      break;
    default:
      e.in = {matrix(all, p.outputs), matrix(all, p.units), {}};
      break;
  }
  const bool of_step = which == RecurrentProduct::step || which == RecurrentProduct::step_back;
  if (make_packed_ && of_step) {
    e.packed = make_packed_(e.out[0].shape[0], e.out[0].shape[1], e.in[0].shape[1],
                            which == RecurrentProduct::step);
    workspace_bytes_ = std::max(workspace_bytes_, e.packed->workspace_bytes());
    return;
  }
  const OpDef& op = op_of(which);
  e.inputs = static_cast<size_t>(op.inputs());
  if (!e.out[0].defined) {
    e.outputs = 2;
    e.out = {matrix(e.in[0].shape[1], e.in[1].shape[1]),
             TensorSpec::contiguous({e.in[0].shape[1]}, dtype, device_)};
  }
  e.prepared =
      select(op, ParamsRef::of(NoParams{}),
             {std::span(e.in).first(e.inputs), std::span(e.out).first(e.outputs)}, device_);
  check(!e.prepared->needs_copies(), "recurrent: a product of row-major matrices needs a copy");
  workspace_bytes_ = std::max(workspace_bytes_, e.prepared->state->workspace_bytes);
}

void RecurrentEngine::run(RecurrentProduct which, std::array<const void*, 3> in,
                          std::array<void*, 2> out) const {
  const auto& e = products_.entries_[static_cast<size_t>(which)];
  std::array<Arg, 3> from;
  std::array<Arg, 2> to;
  for (size_t i = 0; i < e.inputs; ++i) from[i] = {const_cast<void*>(in[i]), &e.in[i]};
  for (size_t i = 0; i < e.outputs; ++i) to[i] = {out[i], &e.out[i]};
  static const NoParams none;
  e.prepared->run(&none, {std::span(from).first(e.inputs), std::span(to).first(e.outputs),
                          workspace_, encoder});
}

void RecurrentEngine::product(RecurrentProduct which, const void* a, const void* b,
                              void* out) const {
  if (products_.packed(which)) return steps_->product(a, out);
  run(which, {a, b, which == RecurrentProduct::input ? bias_ : nullptr}, {out, nullptr});
}

void RecurrentEngine::weight_gradient(RecurrentProduct which, const void* dy, const void* x,
                                      void* dw, void* db) const {
  run(which, {dy, x, nullptr}, {dw, db ? db : unused_bias_gradient_});
}

void RecurrentEngine::start(RecurrentProduct which, const void* packed) {
  if (const PackedProduct* product = products_.packed(which))
    steps_ = product->start(packed, workspace_);
}

Support supports_recurrent_gemm(const Specs& specs) {
  IndexSet all;
  for (size_t i = 0; i < specs.in.size(); ++i)
    if (specs.in[i].defined) all.insert(static_cast<int>(i));
  return Support::yes().with_contiguous(all);
}

std::shared_ptr<RecurrentGemmState> prepare_recurrent_gemm(const RecurrentPasses& passes,
                                                           const RecurrentParams& params,
                                                           const Specs& specs,
                                                           MakePacked* make_packed,
                                                           int64_t batch_parts) {
  using namespace recurrent_io;
  const TensorSpec& x = specs.in[kX];
  RecurrentProblem p(params.mode, params.reverse, x, specs.in[kWHh], specs.in[kWHr].defined);
  p.batch /= batch_parts;
  const ThreadLimit limit(batch_parts > 1 ? 1 : num_threads());  // of the products
  RecurrentProducts products(passes, p, x.dtype, x.device, make_packed);
  const bool bias = specs.in[kBIh].defined;
  const bool lengths = specs.in[kLengths].defined;
  const int64_t chunks = make_packed ? input_chunks(p.steps * p.batch) : 1;
  products.add(RecurrentProduct::input, bias, chunks);
  products.add(RecurrentProduct::step);
  if (p.projected) products.add(RecurrentProduct::project);
  auto state = std::make_shared<RecurrentGemmState>(std::move(products));
  state->parts = batch_parts;
  state->chunks = chunks;
  // A multiple of 256, as the parts of the workspace.
  state->library_bytes = (state->products.workspace_bytes() + 255) / 256 * 256;
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  WorkspaceParts parts;
  // What is made of the weights comes first, so that it can be kept elsewhere.
  if (!passes.packed(p)) {
    state->w_ih = parts.add(p.rows() * p.inputs * size);
    state->w_hh = parts.add(p.rows() * p.outputs * size);
  }
  if (bias) state->bias = parts.add(p.rows() * size);
  if (const PackedProduct* packed = state->products.packed(RecurrentProduct::step))
    state->packed = parts.add(static_cast<int64_t>(packed->packed_bytes()));
  state->kept_bytes = parts.bytes();
  state->kept_of = {kWIh, kWHh, kBIh, kBHh};
  if (!params.keep) state->gates = parts.add(p.steps * p.stride * p.rows() * size);
  if (!params.keep && p.has_cells()) state->cells = parts.add(2 * p.stride * p.units * size);
  state->step = parts.add(p.stride * p.rows() * size);
  if (p.projected) state->hidden = parts.add(p.stride * p.units * size);
  if (p.projected && lengths) state->projected = parts.add(p.stride * p.outputs * size);
  if (lengths) state->state = parts.add(p.stride * p.outputs * size);
  state->library = parts.add(batch_parts * static_cast<int64_t>(state->library_bytes));
  state->workspace_bytes = parts.bytes();
  return state;
}

namespace {

/// The weights as the products of a walk read them.
struct WalkedWeights {
  const void *ih, *hh, *bias;
};

/// In the part of `memory` that is for them, where they are not taken as they are; made there
/// first, or found.
WalkedWeights walked_weights(const RecurrentGemmState& s, const Call& call, void* memory,
                             bool make) {
  using namespace recurrent_io;
  const RecurrentPasses& passes = s.products.passes;
  const RecurrentProblem& p = s.products.problem;
  const DType dtype = s.products.dtype;
  const auto in = [&](int i) { return call.in[static_cast<size_t>(i)].data; };
  WalkedWeights w{in(kWIh), in(kWHh), nullptr};
  if (!passes.packed(p)) {
    void* const ih = offset(memory, s.w_ih);
    void* const hh = offset(memory, s.w_hh);
    if (make) passes.pack(p, dtype, w.ih, p.inputs, true, ih, call.encoder);
    if (make) passes.pack(p, dtype, w.hh, p.outputs, false, hh, call.encoder);
    w.ih = ih;
    w.hh = hh;
  }
  if (in(kBIh)) {
    void* const bias = offset(memory, s.bias);
    if (make) passes.pack_bias(p, dtype, in(kBIh), in(kBHh), bias, call.encoder);
    w.bias = bias;
  }
  if (const PackedProduct* product = s.products.packed(RecurrentProduct::step)) {
    void* const to = offset(memory, s.packed);
    if (make) product->pack(w.hh, to, offset(call.workspace, s.library));
    w.hh = to;
  }
  return w;
}

}  // namespace

void keep_recurrent_gemm(const RecurrentParams&, const RecurrentGemmState& s, const Call& call) {
  walked_weights(s, call, call.kept, true);
}

void run_recurrent_gemm(const RecurrentParams& params, const RecurrentGemmState& s,
                        const Call& call) {
  using namespace recurrent_io;
  const RecurrentProblem& p = s.products.problem;
  const auto part = [&](size_t at) { return static_cast<void*>(offset(call.workspace, at)); };
  const auto in = [&](int i) { return call.in[static_cast<size_t>(i)].data; };
  const auto out = [&](int i) { return call.out[static_cast<size_t>(i)].data; };
  const auto* lengths = static_cast<const int64_t*>(in(kLengths));
  const bool kept = call.kept != nullptr;
  const WalkedWeights w = walked_weights(s, call, kept ? call.kept : call.workspace, !kept);
  RecurrentProblem all = p;
  all.batch = p.stride;
  if (lengths) s.products.passes.check_lengths(all, lengths, call.encoder);
  const auto size = static_cast<int64_t>(size_of(s.products.dtype));
  const auto each_part = [&](auto&& f) {
    if (s.parts == 1) return f(int64_t{0});
    parallel_for(s.parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i);
    });
  };
  const auto engine_of = [&](int64_t i) {
    return RecurrentEngine(s.products, w.bias, nullptr,
                           offset(part(s.library), static_cast<size_t>(i) * s.library_bytes),
                           call.encoder);
  };
  // From element `first` on.
  const auto from = [&]<class Base>(Base* base, int64_t first) -> Base* {
    using Byte = std::conditional_t<std::is_const_v<Base>, const std::byte, std::byte>;
    return base ? static_cast<Byte*>(base) + first * size : nullptr;
  };
  void* const gates = params.keep ? out(kGates) : part(s.gates);
  const void* const x = in(kX);
  const void* const h0 = in(kH0);
  const void* const c0 = in(kC0);
  // Of the inputs' product a part is some steps, or parts of them: they lie one after the other.
  const int64_t rows = p.steps * p.batch / s.chunks;
  each_part([&](int64_t i) {
    const RecurrentEngine engine = engine_of(i);
    for (int64_t j = i * s.chunks; j < (i + 1) * s.chunks; ++j)
      engine.product(RecurrentProduct::input, from(x, j * rows * p.inputs), w.ih,
                     from(gates, j * rows * p.rows()));
  });
  each_part([&](int64_t i) {
    RecurrentEngine engine = engine_of(i);
    engine.start(RecurrentProduct::step, w.hh);
    const int64_t n = i * p.batch;
    const int64_t outputs = n * p.outputs;
    const int64_t units = n * p.units;
    walk_forward(
        engine, p,
        {nullptr, w.ih, w.hh, in(kWHr), from(h0, outputs), from(c0, units),
         lengths ? lengths + n : nullptr, from(out(kY), outputs), from(out(kHn), outputs),
         from(out(kCn), units), from(gates, n * p.rows()), params.keep,
         from(params.keep ? out(kCells) : part(s.cells), units), from(part(s.step), n * p.rows()),
         from(part(s.hidden), units), from(part(s.projected), outputs),
         lengths ? from(part(s.state), outputs) : nullptr});
  });
}

std::shared_ptr<RecurrentGemmState> prepare_recurrent_grad_gemm(const RecurrentPasses& passes,
                                                                const RecurrentGradParams& params,
                                                                const Specs& specs,
                                                                MakePacked* make_packed) {
  using namespace recurrent_grad_io;
  const TensorSpec& x = specs.in[kX];
  const RecurrentProblem p(params.mode, params.reverse, x, specs.in[kWHh], specs.in[kWHr].defined);
  RecurrentProducts products(passes, p, x.dtype, x.device, make_packed);
  products.add(RecurrentProduct::step_back);
  if (params.input) products.add(RecurrentProduct::input_back);
  products.add(RecurrentProduct::ih);
  products.add(RecurrentProduct::hh);
  if (p.projected) {
    products.add(RecurrentProduct::project_back);
    products.add(RecurrentProduct::hr);
  }
  auto state = std::make_shared<RecurrentGemmState>(std::move(products));
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  const auto wide = static_cast<int64_t>(size_of(carry_dtype(x.dtype)));
  WorkspaceParts parts;
  if (!passes.packed(p)) {
    state->w_ih = parts.add(p.rows() * p.inputs * size);
    state->w_hh = parts.add(p.rows() * p.outputs * size);
    state->dw_ih = parts.add(p.rows() * p.inputs * size);
    state->dw_hh = parts.add(p.rows() * p.outputs * size);
  }
  state->db = parts.add(p.rows() * size);
  state->unused = parts.add(std::max(p.rows(), p.outputs) * size);
  state->carry = parts.add(p.batch * p.outputs * wide);
  if (p.has_cells()) state->dc = parts.add(p.batch * p.units * wide);
  state->back = parts.add(p.batch * p.outputs * size);
  state->dgates = parts.add(p.steps * p.batch * p.rows() * size);
  state->before = parts.add(p.steps * p.batch * p.outputs * size);
  if (p.projected) {
    state->dh = parts.add(p.steps * p.batch * p.outputs * size);
    state->hidden = parts.add(p.steps * p.batch * p.units * size);
    state->dhidden = parts.add(p.batch * p.units * size);
  }
  state->library = parts.add(static_cast<int64_t>(state->products.workspace_bytes()));
  if (const PackedProduct* packed = state->products.packed(RecurrentProduct::step_back))
    state->packed = parts.add(static_cast<int64_t>(packed->packed_bytes()));
  state->workspace_bytes = parts.bytes();
  return state;
}

void run_recurrent_grad_gemm(const RecurrentGradParams& params, const RecurrentGemmState& s,
                             const Call& call) {
  using namespace recurrent_grad_io;
  const RecurrentPasses& passes = s.products.passes;
  const RecurrentProblem& p = s.products.problem;
  const DType dtype = s.products.dtype;
  const auto part = [&](size_t at) { return static_cast<void*>(offset(call.workspace, at)); };
  const auto in = [&](int i) { return call.in[static_cast<size_t>(i)].data; };
  const auto out = [&](int i) { return call.out[static_cast<size_t>(i)].data; };
  const void* w_ih = in(kWIh);
  const void* w_hh = in(kWHh);
  void* dw_ih = out(kDwIh);
  void* dw_hh = out(kDwHh);
  const bool packed = passes.packed(p);
  if (!packed) {
    if (params.input) passes.pack(p, dtype, w_ih, p.inputs, true, part(s.w_ih), call.encoder);
    passes.pack(p, dtype, w_hh, p.outputs, false, part(s.w_hh), call.encoder);
    w_ih = part(s.w_ih);
    w_hh = part(s.w_hh);
    dw_ih = part(s.dw_ih);
    dw_hh = part(s.dw_hh);
  }
  RecurrentEngine engine(s.products, nullptr, part(s.unused), part(s.library), call.encoder);
  if (const PackedProduct* product = s.products.packed(RecurrentProduct::step_back))
    product->pack(w_hh, part(s.packed), part(s.library));
  engine.start(RecurrentProduct::step_back, part(s.packed));
  walk_backward(engine, p,
                {in(kX),
                 w_ih,
                 w_hh,
                 in(kWHr),
                 in(kH0),
                 in(kC0),
                 static_cast<const int64_t*>(in(kLengths)),
                 in(kY),
                 in(kGates),
                 in(kCells),
                 in(kDy),
                 in(kDhn),
                 in(kDcn),
                 params.input ? out(kDx) : nullptr,
                 dw_ih,
                 dw_hh,
                 part(s.db),
                 out(kDwHr),
                 out(kDh0),
                 out(kDc0),
                 part(s.carry),
                 part(s.dc),
                 part(s.back),
                 part(s.dgates),
                 part(s.before),
                 part(s.dh),
                 part(s.hidden),
                 part(s.dhidden)});
  if (!packed) {
    passes.unpack(p, dtype, dw_ih, p.inputs, true, out(kDwIh), call.encoder);
    passes.unpack(p, dtype, dw_hh, p.outputs, false, out(kDwHh), call.encoder);
  }
  if (!params.bias) return;
  passes.unpack(p, dtype, part(s.db), 1, true, out(kDbIh), call.encoder);
  passes.unpack(p, dtype, part(s.db), 1, false, out(kDbHh), call.encoder);
}

}  // namespace mica

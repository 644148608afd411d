#include "mica/ops/conv/cpu_widened.h"

#include <array>

#include "mica/runtime/cpu/convert.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica::widened {
namespace {

constexpr int64_t kElementsPerThread = 1 << 15;
constexpr size_t kMostTensors = 8;

bool is_half(const TensorSpec& s) {
  return s.defined && (s.dtype == DType::f16 || s.dtype == DType::bf16);
}

std::vector<TensorSpec> in_f32(std::span<const TensorSpec> specs) {
  std::vector<TensorSpec> wide(specs.begin(), specs.end());
  for (TensorSpec& s : wide)
    if (is_half(s)) {
      s.dtype = DType::f32;
      s.aligned = true;
    }
  return wide;
}

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t bytes_of(const TensorSpec& s) { return padded(static_cast<size_t>(s.numel()) * 4); }

// Workspace: the f32 copies of inputs and outputs, then what the kernel of f32 wants.
struct State : KernelState {
  std::vector<TensorSpec> in, out;
  std::shared_ptr<const KernelState> inner;
};

template <class T>
void widen(const void* from, int64_t n, float* to) {
  parallel_for(n, kElementsPerThread, [&](int64_t begin, int64_t end) {
    load_run(static_cast<const T*>(from) + begin, 1, end - begin, to + begin);
  });
}
template <class T>
void narrow(const float* from, int64_t n, void* to) {
  parallel_for(n, kElementsPerThread, [&](int64_t begin, int64_t end) {
    store_run(from + begin, end - begin, static_cast<T*>(to) + begin, 1);
  });
}

}  // namespace

Support supports(const OpDef& op, const Kernel& inner, const void* params, const Specs& specs) {
  if (!is_half(specs.out[0])) return Support::no("is for f16 and bf16");
  const auto in = in_f32(specs.in);
  const auto out = in_f32(specs.out);
  Support support = inner.supports(op, params, {in, out});
  if (support.kind == Support::Kind::no) return support;
  // What is converted must be dense.
  for (int i = 0; i < static_cast<int>(in.size()); ++i)
    if (!support.channels_last.contains(i)) support.contiguous.insert(i);
  return support;
}

std::shared_ptr<const KernelState> prepare(const OpDef& op, const Kernel& inner, const void* params,
                                           const Specs& specs) {
  auto state = std::make_shared<State>();
  state->in = in_f32(specs.in);
  state->out = in_f32(specs.out);
  state->inner = inner.prepare(op, params, {state->in, state->out});
  size_t bytes = state->inner->workspace_bytes;
  for (const auto& list : {specs.in, specs.out})
    for (const TensorSpec& s : list)
      if (is_half(s)) bytes += bytes_of(s);
  state->workspace_bytes = bytes;
  return state;
}

void run(const OpDef& op, const Kernel& inner, const void* params, const KernelState& kernel_state,
         const Call& call) {
  const auto& state = static_cast<const State&>(kernel_state);
  auto* workspace = static_cast<std::byte*>(call.workspace);
  const auto wide = [&](const Arg& arg, const TensorSpec& spec) {
    if (!is_half(*arg.spec)) return Arg{arg.data, &spec};
    const Arg result{workspace, &spec};
    workspace += bytes_of(spec);
    return result;
  };
  std::array<Arg, kMostTensors> in;
  std::array<Arg, kMostTensors> out;
  for (size_t i = 0; i < call.in.size(); ++i) {
    const Arg& from = call.in[i];
    in[i] = wide(from, state.in[i]);
    if (!is_half(*from.spec)) continue;
    if (from.dtype() == DType::f16) widen<Half>(from.data, from.numel(), in[i].as<float>());
    if (from.dtype() == DType::bf16) widen<BFloat16>(from.data, from.numel(), in[i].as<float>());
  }
  for (size_t i = 0; i < call.out.size(); ++i) out[i] = wide(call.out[i], state.out[i]);
  inner.run(op, params, *state.inner,
            {std::span(in).first(call.in.size()), std::span(out).first(call.out.size()), workspace,
             call.encoder});
  for (size_t i = 0; i < call.out.size(); ++i) {
    const Arg& to = call.out[i];
    if (to.dtype() == DType::f16) narrow<Half>(out[i].as<float>(), to.numel(), to.data);
    if (to.dtype() == DType::bf16) narrow<BFloat16>(out[i].as<float>(), to.numel(), to.data);
  }
}

bool made(const KernelState& state) { return dynamic_cast<const State*>(&state) != nullptr; }

}  // namespace mica::widened

#include "mica/op/guarded_run.h"

#include <algorithm>
#include <cstring>

#include "mica/core/check.h"
#include "mica/op/select.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

constexpr size_t kGuard = 256;  // keeps what follows aligned as an allocation is
constexpr auto kPattern = std::byte{0xA5};
constexpr auto kPoison = std::byte{0xFF};  // NaN in every floating dtype

/// Memory with a guard zone on both sides.
class Guarded {
 public:
  Guarded(size_t bytes, Device device) : Guarded(std::vector<std::byte>(bytes, kPoison), device) {}
  Guarded(const std::vector<std::byte>& values, Device device) : bytes_(values.size()) {
    std::vector<std::byte> content(bytes_ + 2 * kGuard, kPattern);
    std::ranges::copy(values, content.begin() + kGuard);
    base_ = tensor_from_bytes(content.data(), {static_cast<int64_t>(content.size())},
                              {DType::u8, device});
  }
  std::byte* data() const { return base_.storage()->data() + kGuard; }
  const Ref<Storage>& storage() const { return base_.storage(); }
  void copy_to(std::byte* memory) const {
    runtime(base_.device()).copy(memory, data(), bytes_, base_.device().index);
  }
  /// Which guard zone was written to, if one was.
  std::string damage() const {
    std::vector<std::byte> now(bytes_ + 2 * kGuard);
    runtime(base_.device())
        .copy_to_host(now.data(), base_.data(), now.size(), base_.device().index);
    const auto kept = [](std::byte b) { return b == kPattern; };
    const auto end = now.begin() + kGuard + static_cast<std::ptrdiff_t>(bytes_);
    if (!std::all_of(now.begin(), now.begin() + kGuard, kept)) return "before";
    if (!std::all_of(end, now.end(), kept)) return "behind";
    return "";
  }

 private:
  size_t bytes_;
  Tensor base_;
};

size_t bytes_of(const TensorSpec& s) { return static_cast<size_t>(s.numel()) * size_of(s.dtype); }

std::vector<std::byte> bytes_in(const Tensor& t) {
  std::vector<std::byte> bytes(t.storage()->bytes());
  if (!bytes.empty())
    runtime(t.device())
        .copy_to_host(bytes.data(), t.storage()->data(), bytes.size(), t.device().index);
  return bytes;
}

/// Whether a tensor has the whole of its memory, from the beginning, and no other input lies there.
bool is_alone(const Tensors& in, size_t i) {
  const Tensor& t = in[i];
  if (!t.defined() || t.numel() == 0 || t.offset() != 0) return false;
  for (size_t k = 0; k < in.size(); ++k)
    if (k != i && in[k].defined() && in[k].storage() == t.storage()) return false;
  return true;
}

}  // namespace

Outputs GuardedRun::record(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                           std::span<const TensorSpec> out) {
  // The definition names its outputs; those that are not always there come last.
  const auto always =
      std::count_if(op.out.begin(), op.out.end(), [](const Slot& slot) { return !slot.optional; });
  if (out.size() < static_cast<size_t>(always) || (out.size() > op.out.size() && !op.more_outputs))
    faults.push_back(
        fmt::format("{} names {} outputs and has {}", op.name, op.out.size(), out.size()));
  Outputs outputs;
  if (op.view) {
    const int64_t offset = op.view(op, params.data, inputs[0].spec()).offset;
    outputs.add(view_of(inputs[0], out[0], inputs[0].offset() + offset));
    return outputs;
  }
  for (Tensor& t : run(op, params, inputs, out)) outputs.add(std::move(t));
  return outputs;
}

Tensors GuardedRun::run(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                        std::span<const TensorSpec> out) {
  static const TensorSpec undefined;
  const auto given =
      std::find_if(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined(); });
  const Device device = out.empty() ? given->device() : out[0].device;
  std::vector<TensorSpec> in_specs;
  for (const Tensor& t : inputs) in_specs.push_back(t.defined() ? t.spec() : undefined);
  const auto prepared = select(op, params, {in_specs, out}, device);

  Tensors in(inputs.begin(), inputs.end());
  for (size_t i = 0; i < in.size(); ++i) {
    const TensorSpec wanted = wanted_spec(*prepared, static_cast<int>(i), in_specs[i]);
    if (wanted.strides == in_specs[i].strides) continue;
    const AnyParams copy = layout_copy_params(wanted);
    in[i] = run(layout_copy_op(), copy.ref(), {&inputs[i], 1}, {&wanted, 1})[0];
  }
  std::vector<Guarded> memory;
  for (const TensorSpec& s : out) memory.emplace_back(bytes_of(s), device);
  const size_t workspace_bytes = prepared->state->workspace_bytes;
  const Guarded workspace(workspace_bytes, device);

  std::vector<Arg> in_args;
  std::vector<Arg> out_args;
  out_args.reserve(out.size());
  std::vector<std::vector<std::byte>> before;
  std::vector<std::pair<size_t, Guarded>> written;  // inputs, between guard zones meanwhile
  for (size_t i = 0; i < in.size(); ++i) {
    const Tensor& t = in[i];
    in_args.push_back(t.defined() ? Arg{t.data(), &t.spec()} : Arg{nullptr, &undefined});
    before.push_back(t.defined() ? bytes_in(t) : std::vector<std::byte>());
    if (!op.writes(params.data, static_cast<int>(i), static_cast<int>(in.size())) ||
        !is_alone(in, i))
      continue;
    written.emplace_back(i, Guarded(before[i], device));
    in_args[i].data = written.back().second.data();
  }
  for (size_t i = 0; i < out.size(); ++i)
    out_args.push_back({out[i].numel() > 0 ? memory[i].data() : nullptr, &out[i]});
  prepared->run(params.data, {in_args, out_args, workspace_bytes > 0 ? workspace.data() : nullptr,
                              runtime(device).encoder(device.index)});

  const std::string who = fmt::format("{}, kernel {}: ", op.name, prepared->kernel->name);
  for (size_t i = 0; i < out.size(); ++i)
    if (const std::string where = memory[i].damage(); !where.empty())
      faults.push_back(fmt::format("{}writes {} output {}", who, where, i));
  if (const std::string where = workspace.damage(); !where.empty())
    faults.push_back(
        fmt::format("{}writes {} its workspace of {} bytes", who, where, workspace_bytes));
  for (const auto& [i, values] : written) {
    if (const std::string where = values.damage(); !where.empty())
      faults.push_back(fmt::format("{}writes {} input {}", who, where, i));
    values.copy_to(in[i].storage()->data());
  }
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i].defined() &&
        !op.writes(params.data, static_cast<int>(i), static_cast<int>(in.size())) &&
        bytes_in(in[i]) != before[i])
      faults.push_back(fmt::format("{}writes to input {}", who, i));

  Tensors results;
  for (size_t i = 0; i < out.size(); ++i) {
    auto impl = make_ref<TensorImpl>();
    impl->spec = out[i];
    impl->storage = memory[i].storage();
    impl->offset = static_cast<int64_t>(kGuard / size_of(out[i].dtype));
    results.push_back(Tensor(std::move(impl)));
  }
  return results;
}

}  // namespace mica

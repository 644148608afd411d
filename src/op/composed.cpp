#include "mica/op/composed.h"

#include <algorithm>
#include <array>

#include "mica/core/check.h"
#include "mica/op/lower.h"

namespace mica {

ComposedState::ComposedState(const Specs& specs)
    : inputs_(static_cast<int>(specs.in.size())), outputs_(static_cast<int>(specs.out.size())) {
  for (const TensorSpec& s : specs.in) values_.push_back({s});
  for (const TensorSpec& s : specs.out) values_.push_back({s});
}

int ComposedState::temporary(const Shape& shape, DType dtype, const TensorSpec& like) {
  TensorSpec spec = TensorSpec::contiguous(shape, dtype, like.device);
  if (like.is_channels_last()) spec.strides = channels_last_strides(shape);
  return add_temporary(spec);
}

int ComposedState::add_temporary(const TensorSpec& spec) {
  constexpr size_t kAlignment = 256;
  values_.push_back({spec, temporary_bytes_});
  values_.back().spec.defined = true;
  const size_t bytes = static_cast<size_t>(spec.numel()) * size_of(spec.dtype);
  temporary_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  workspace_bytes = temporary_bytes_ + inner_bytes_;
  return static_cast<int>(values_.size()) - 1;
}

int ComposedState::view(int value, const TensorSpec& spec) {
  values_.push_back({spec, 0, value});
  return static_cast<int>(values_.size()) - 1;
}

void ComposedState::add_call(const OpDef& op, const AnyParams& params, std::vector<int> in,
                             const std::vector<int>& out) {
  const auto specs = [&](const std::vector<int>& values) {
    std::vector<TensorSpec> all;
    all.reserve(values.size());
    for (const int v : values) all.push_back(spec(v));
    return all;
  };
  const std::vector<TensorSpec> in_specs = specs(in);
  const std::vector<TensorSpec> out_specs = specs(out);
  // An update has no results.
  const Device device = out_specs.empty() ? in_specs[0].device : out_specs[0].device;
  lower_call(
      op, params, select(op, params.ref(), {in_specs, out_specs}, device), in_specs, device,
      std::move(in), out, [&](const TensorSpec& spec) { return add_temporary(spec); },
      [&](LoweredCall<int> call) {
        inner_bytes_ = std::max(inner_bytes_, call.prepared->state->workspace_bytes);
        workspace_bytes = temporary_bytes_ + inner_bytes_;
        steps_.push_back(
            {call.params, std::move(call.prepared), std::move(call.in), std::move(call.out)});
      });
}

Arg ComposedState::arg(int value, const Call& call) const {
  const Value& v = values_[static_cast<size_t>(value)];
  if (v.base != kNoBase) return {arg(v.base, call).data, &v.spec};
  const auto i = static_cast<size_t>(value);
  if (value < inputs_) return {call.in[i].data, &v.spec};
  if (value < inputs_ + outputs_) return {call.out[i - static_cast<size_t>(inputs_)].data, &v.spec};
  if (v.spec.numel() == 0) return {nullptr, &v.spec};
  return {static_cast<std::byte*>(call.workspace) + v.offset, &v.spec};
}

void ComposedState::run(const Call& call) const {
  std::byte* inner =
      inner_bytes_ == 0 ? nullptr : static_cast<std::byte*>(call.workspace) + temporary_bytes_;
  constexpr size_t kFew = 16;  // of these no memory is asked for; an update may have more
  std::array<Arg, kFew> few;
  std::vector<Arg> many;
  for (const Step& step : steps_) {
    const size_t count = step.in.size() + step.out.size();
    if (count > kFew) many.resize(count);
    const std::span<Arg> all(count > kFew ? many.data() : few.data(), count);
    size_t i = 0;
    for (const int v : step.in) all[i++] = arg(v, call);
    for (const int v : step.out) all[i++] = arg(v, call);
    step.prepared->run(step.params.ref().data, {all.first(step.in.size()),
                                                all.subspan(step.in.size()), inner, call.encoder});
  }
}

}  // namespace mica

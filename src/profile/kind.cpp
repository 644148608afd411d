#include "mica/profile/kind.h"

#include <fmt/format.h>

#include <algorithm>

#include "mica/core/check.h"
#include "mica/graph/value_bytes.h"

namespace mica::profiler {
namespace {

std::string shapes_text(const KernelRun& run) {
  std::string text;
  const auto add = [&](std::span<const Arg> args) {
    bool first = true;
    for (const Arg& a : args) {
      if (!a.spec->defined) continue;
      text += fmt::format("{}{}", first ? "" : ", ", *a.spec);
      first = false;
    }
  };
  add(run.in);
  text += " → ";
  add(run.out);
  return text;
}

}  // namespace

uint64_t hash_of(const KernelRun& run) {
  const OpDef& op = *run.prepared.op;
  uint64_t hash =
      hash_mix(reinterpret_cast<uintptr_t>(&op), reinterpret_cast<uintptr_t>(run.prepared.kernel));
  hash = hash_mix(hash, op.params_info->hash(run.params));
  for (const std::span<const Arg> args : {run.in, run.out})
    for (const Arg& a : args) {
      hash = hash_mix(hash, a.spec->defined ? static_cast<uint64_t>(a.spec->dtype) + 1 : 0);
      if (a.spec->defined) hash = hash_field(hash_field(hash, a.spec->shape), a.spec->strides);
    }
  return hash;
}

Kind kind_of(const KernelRun& run) {
  const OpDef& op = *run.prepared.op;
  Kind kind{.op = op.name,
            .kernel = run.prepared.kernel->name,
            .params = op.params_info->print(run.params),
            .shapes = shapes_text(run),
            .device = run.device,
            .copies = op.copies};
  std::vector<TensorSpec> in;
  std::vector<TensorSpec> out;
  const auto bytes = [](const TensorSpec& s) {
    return static_cast<double>(std::min(extent_bytes(s), bytes_of(s)));
  };
  bool has_floats = false;
  for (const Arg& a : run.in) {
    in.push_back(*a.spec);
    if (a.spec->defined && is_floating(a.spec->dtype) && !has_floats) {
      kind.dtype = a.spec->dtype;
      has_floats = true;
    }
    const bool updated =
        op.writes(run.params, static_cast<int>(in.size()) - 1, static_cast<int>(run.in.size()));
    if (a.spec->defined) kind.bytes += (updated ? 2 : 1) * bytes(*a.spec);
  }
  for (const Arg& a : run.out) {
    out.push_back(*a.spec);
    kind.bytes += bytes(*a.spec);
  }
  if (op.flops) kind.flops = op.flops(op, run.params, {in, out});
  return kind;
}

}  // namespace mica::profiler

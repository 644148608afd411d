#pragma once

#include "mica/op/kernel.h"

namespace mica {

namespace widened {

Support supports(const OpDef& op, const Kernel& inner, const void* params, const Specs& specs);
std::shared_ptr<const KernelState> prepare(const OpDef& op, const Kernel& inner, const void* params,
                                           const Specs& specs);
void run(const OpDef& op, const Kernel& inner, const void* params, const KernelState& state,
         const Call& call);
/// Whether `prepare` here made it.
bool made(const KernelState& state);

}  // namespace widened

/// A kernel of f32 for f16 and bf16: whole inputs are converted in the workspace, and the results
/// back.
template <Kernel (*inner)()>
Kernel widened_kernel(const char* name = "widened") {
  return {name,
          [](const OpDef& op, const void* p, const Specs& s) {
            return widened::supports(op, inner(), p, s);
          },
          [](const OpDef& op, const void* p, const Specs& s) {
            return widened::prepare(op, inner(), p, s);
          },
          [](const OpDef& op, const void* p, const KernelState& state, const Call& call) {
            widened::run(op, inner(), p, state, call);
          }};
}

/// `inner`, a kernel of f32 and a half, where the calls that `widens` names are computed in f32.
template <Kernel (*inner)(), bool (*widens)(const void* params, const Specs& specs)>
Kernel partly_widened_kernel() {
  Kernel k = inner();
  k.supports = [](const OpDef& op, const void* p, const Specs& s) {
    return widens(p, s) ? widened::supports(op, inner(), p, s) : inner().supports(op, p, s);
  };
  k.prepare = [](const OpDef& op, const void* p, const Specs& s) {
    return widens(p, s) ? widened::prepare(op, inner(), p, s) : inner().prepare(op, p, s);
  };
  k.run = [](const OpDef& op, const void* p, const KernelState& state, const Call& call) {
    return widened::made(state) ? widened::run(op, inner(), p, state, call)
                                : inner().run(op, p, state, call);
  };
  return k;
}

}  // namespace mica

#pragma once

#include "mica/op/kernel.h"

namespace mica {

namespace widened {

Support supports(const OpDef& op, const Kernel& inner, const void* params, const Specs& specs);
std::shared_ptr<const KernelState> prepare(const OpDef& op, const Kernel& inner, const void* params,
                                           const Specs& specs);
void run(const OpDef& op, const Kernel& inner, const void* params, const KernelState& state,
         const Call& call);

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

}  // namespace mica

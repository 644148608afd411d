#pragma once

#include "mica/op/kernel.h"

namespace mica {

namespace widened {

Support supports(const Kernel& inner, const void* params, const Specs& specs);
std::shared_ptr<const KernelState> prepare(const Kernel& inner, const void* params,
                                           const Specs& specs);
void run(const Kernel& inner, const void* params, const KernelState& state, const Call& call);

}  // namespace widened

/// A kernel of f32 for f16 and bf16: whole inputs are converted in the workspace, and the results
/// back.
template <Kernel (*inner)()>
Kernel widened_kernel() {
  return {"widened", [](const void* p, const Specs& s) { return widened::supports(inner(), p, s); },
          [](const void* p, const Specs& s) { return widened::prepare(inner(), p, s); },
          [](const void* p, const KernelState& state, const Call& call) {
            widened::run(inner(), p, state, call);
          }};
}

}  // namespace mica

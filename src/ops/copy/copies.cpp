// Copies of one kind in one call: weights that are cast at the start of a step, gradients at its
// end.
#include "mica/ops/copy/copies.h"
#include "mica/op/composed.h"
#include "mica/ops/copy/copy.h"

namespace mica {

const OpDef& copy_op();

namespace {

void infer(const CopyParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  for (size_t k = 0; k < in.size(); ++k) {
    OutSpecs own(out.op());
    copy_op().infer(copy_op(), &p, in.subspan(k, 1), own);
    out.add(own[0].shape, own[0].dtype);
    out[static_cast<int>(k)].strides = own[0].strides;
  }
}

std::shared_ptr<ComposedState> prepare(const CopyParams& p, const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  for (int k = 0; k < static_cast<int>(s.in.size()); ++k)
    state->add(copy_op(), p, {state->in(k)}, {state->out(k)});
  return state;
}

void run(const CopyParams&, const ComposedState& state, const Call& call) { state.run(call); }

}  // namespace

Kernel copies_composed_kernel() {
  return kernel<supports_all<CopyParams>, prepare, run>("composed");
}

const OpDef& copies_op() {
  static OpDef def =
      Op<CopyParams>("copies")
          .inputs({"x..."})
          .outputs({"y..."})
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .no_gradient("it exists only inside compiled functions, after the pass back")
          .cpu({copies_composed_kernel()})
          .build();
  return def;
}

}  // namespace mica

#include "mica/ops/anchored/cuda_carried.h"

#include "mica/core/check.h"
#include "mica/ops/fused/cuda_generated.h"
#include "mica/ops/fused/generator.h"

namespace mica {
namespace {

GeneratedKernel generate(const Anchored& a, const Specs& s) {
  if (a.before.program) {
    std::vector<TensorSpec> in = {s.in[0]};
    for (int k = 0; k < a.more_before(); ++k) {
      const int input = a.op->inputs() + k;
      in.push_back(a.seen(input, s.in[static_cast<size_t>(input)], s.in[0].rank()));
    }
    const TensorSpec& operand = a.keeps_operand ? s.out.back() : s.in[0];
    return generate_carried(*a.before, {in, {&operand, 1}},
                            {.returns = true, .stores = a.keeps_operand});
  }
  std::vector<TensorSpec> in = {s.out[0]};
  in[0].dtype = a.keeps_result ? s.out[a.after->outputs.size()].dtype : s.in[0].dtype;
  for (int k = 1; k <= a.more_after(); ++k)
    in.push_back(
        a.seen(a.input_after(k), s.in[static_cast<size_t>(a.input_after(k))], s.out[0].rank()));
  return generate_carried(*a.after, {in, s.out.first(static_cast<size_t>(a.results()))}, {});
}

}  // namespace

std::string why_not_carried(const AnchoredParams& params, const OpDef& anchor, const Specs& s,
                            bool either) {
  const Anchored& a = *params.call;
  const bool before = a.before.program != nullptr;
  if (a.op != &anchor || before == (a.after.program != nullptr) || (before && !either))
    return fmt::format("it carries a program {} {}", either ? "before or after" : "after",
                       anchor.name);
  if (a.results() > fused::kMostOutputs) return "there are too many results";
  if (s.out[0].numel() == 0) return "there is nothing to compute";
  return generate(a, s).why_not;
}

CarriedKernel load_carried(const AnchoredParams& params, const Specs& s,
                           const CarryingSource& source) {
  const GeneratedKernel program = generate(*params.call, s);
  check<Unsupported>(program.why_not.empty(), "anchored: {}", program.why_not);
  return {load_generated("anchored", carrying_kernel(source, program), s.out[0].device.index,
                         source.few_digits),
          program.args};
}

fused::KernelArgs CarriedKernel::arguments(const AnchoredParams& params, const Call& call) const {
  const Anchored& a = *params.call;
  fused::KernelArgs all = args;
  for (int k = 0; k < a.more_before(); ++k) {
    const int input = a.op->inputs() + k;
    all.in[k + 1] = call.in[static_cast<size_t>(input)].data;
  }
  if (a.before.program) {
    if (a.keeps_operand) all.out[0] = call.out.back().data;
    return all;
  }
  for (int k = 1; k <= a.more_after(); ++k)
    all.in[k] = call.in[static_cast<size_t>(a.input_after(k))].data;
  for (int k = 0; k < a.results(); ++k) all.out[k] = call.out[static_cast<size_t>(k)].data;
  return all;
}

}  // namespace mica

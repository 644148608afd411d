#include "mica/ops/anchored/program_pass.h"

#include <array>

#include "mica/core/check.h"
#include "mica/ops/fused/fused.h"

namespace mica {

ProgramPass::ProgramPass(const AnchoredParams& params, const Specs& s) {
  const Anchored& a = *params.call;
  const FusedParams program{a.after};
  const size_t place = result_place(a);
  check<Unsupported>(
      a.keeps_result || (s.out[0].dtype == s.in[0].dtype &&
                         fused_op().may_overwrite(&program, 0, 0) && a.after->outputs.size() == 1),
      "the program cannot be written over the result");
  std::vector<TensorSpec> in = {s.out[place]};
  for (int k = 1; k <= a.more_after(); ++k)
    in.push_back(s.in[static_cast<size_t>(a.input_after(k))]);
  program_ = select(fused_op(), ParamsRef::of(program), {in, s.out.first(a.after->outputs.size())},
                    s.out[0].device);
  check<Unsupported>(!program_->needs_copies() && program_->state->workspace_bytes == 0,
                     "the program needs memory of its own");
}

void ProgramPass::run(const AnchoredParams& params, const Call& call) const {
  const Anchored& a = *params.call;
  const FusedParams program{a.after};
  std::array<Arg, Program::kMostInputs> in;
  in[0] = call.out[result_place(a)];
  const auto inputs = static_cast<size_t>(a.after->inputs);
  for (size_t k = 1; k < inputs; ++k)
    in[k] = call.in[static_cast<size_t>(a.input_after(static_cast<int>(k)))];
  program_->run(
      &program,
      {{in.data(), inputs}, call.out.first(a.after->outputs.size()), nullptr, call.encoder});
}

}  // namespace mica

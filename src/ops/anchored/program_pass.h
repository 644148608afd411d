#pragma once

#include "mica/op/select.h"
#include "mica/ops/anchored/anchored.h"

namespace mica {

/// The program of an anchored call over the anchor's result, which a kernel has written just
/// before: where it is kept, or to the first of the program's results.
class ProgramPass {
 public:
  /// Raises Unsupported where the program needs the result after it has written over it, or memory
  /// of its own.
  ProgramPass(const AnchoredParams& params, const Specs& specs);
  void run(const AnchoredParams& params, const Call& call) const;

 private:
  std::shared_ptr<const Prepared> program_;
};

/// The result of an anchored call that its anchor's own result is written to.
inline size_t result_place(const Anchored& a) {
  return a.keeps_result ? a.after->outputs.size() : 0;
}

}  // namespace mica

#pragma once

#include "mica/inference/network.h"

namespace mica::inference {

/// What the functions that users call make sure of before an operator is called, for one whose
/// parameters may come from a file: axes are axes of the first input, and no whole number is so
/// large that sums of a few would not fit. The operator checks the rest itself.
void check_call(const OpDef& op, const AnyParams& params, std::span<const Tensor> in);

}  // namespace mica::inference

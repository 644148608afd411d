#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mica/core/values.h"

namespace mica::inference {

struct Network;  // inference/network.h

/// An axis of an input whose size may be another from call to call. Axes with one symbol have one
/// size.
struct DynamicAxis {
  std::string input;
  int axis = 0;
  std::string symbol;
};

using ValuesFunction = std::function<Values(const Values&)>;

struct TraceOptions {
  /// Of the tensors of the example, from left to right. Else "input" for one, the keys of a dict,
  /// "input_0", … of a list.
  std::vector<std::string> input_names = {};
  std::vector<std::string> output_names = {};
  std::vector<DynamicAxis> dynamic = {};
  /// What a constant is called; an empty name where it has none.
  std::function<std::string(const Tensor&)> name_of = {};
};

/// Captures what a function does with arguments like `example`, without gradients, and computes
/// whatever depends on constants alone: batch norms are folded, casts of weights are done. Where
/// sizes are dynamic it is captured for several of them, and each whole number among the parameters
/// of its calls is found as a function of them.
///
/// Raises Unsupported where the function writes to tensors outside, draws random numbers, or does
/// something else for other sizes.
Network trace(const ValuesFunction& function, const Values& example,
              const TraceOptions& options = {});

}  // namespace mica::inference

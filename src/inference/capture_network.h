#pragma once

#include "mica/inference/network.h"
#include "mica/inference/trace.h"

namespace mica::inference {

/// What a function does with tensors of these specs, as a network of fixed sizes; results are left
/// in `form` as the function structures them.
Network capture_network(const ValuesFunction& function, const Values& example,
                        std::span<const TensorSpec> specs, Values& form);

/// One network for all sizes, of networks that were captured for some. `points` has the dynamic
/// sizes of each: first every combination of a lower and an upper size of each symbol, counted in
/// binary, then some to check by.
Network fit_sizes(const std::vector<Network>& networks, const std::vector<SymbolValues>& points,
                  const std::vector<std::string>& symbols);

/// Computes the calls that depend on constants alone, where their results take little more memory.
void compute_constants(Network& network, const std::function<std::string(const Tensor&)>& name_of);

}  // namespace mica::inference

#pragma once

#include <functional>
#include <unordered_map>

#include "mica/autograd/autograd.h"
#include "mica/graph/graph.h"
#include "mica/op/dispatch.h"

namespace mica {

using TensorFunction = std::function<Tensors(std::span<const Tensor>)>;

/// What a leaf's `.grad` was when the captured function first depended on it; a replay is right
/// only while that still holds.
struct GradGuard {
  Tensor leaf;
  Ref<Storage> grad;  ///< null when there was none
  bool holds() const;
};

/// A function's graph and what surrounds it.
struct Captured {
  Graph graph;
  size_t results = 0;           ///< the first outputs are what the function returned
  std::vector<Tensor> grad_of;  ///< the others go to these leaves' `.grad`
  std::vector<GradGuard> guards;
  std::vector<Tensor> written;  ///< external tensors the graph writes to
  Device device;
};

/// Runs `function` once on tensors without values and records what it does. Nothing is computed. If
/// it throws, gradients are as they were before.
Captured capture(const TensorFunction& function, std::span<const TensorSpec> inputs);

}  // namespace mica

#pragma once

#include <memory>

#include "mica/core/values.h"
#include "mica/nn/module.h"

namespace mica::onnx {

/// A model that `load` gave, as compiled functions with steps on the host between them. Wherever a
/// node needs the value of something that depends on the inputs, such as the condition of an If or
/// the count of a Loop, the nodes before it are one compiled function and those after it another;
/// the node itself runs as it does eagerly, and the graphs that are its attributes are cut
/// likewise. Where those places are is found at the first call. Copies of the handle are one
/// object, which any number of threads may call.
class Segments {
 public:
  /// Raises for a module that `load` did not give.
  explicit Segments(const nn::Module& net);

  /// What `net(inputs)` gives.
  Values operator()(const Values& inputs) const;

  /// How many compiled functions there are so far, and how often one of them was captured.
  int count() const;
  int captures() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mica::onnx

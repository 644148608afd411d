#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mica/autograd/autograd.h"
#include "mica/graph/call.h"
#include "mica/graph/graph.h"
#include "mica/op/dispatch.h"

namespace mica {

/// What a capture found on the host and built upon; a replay is right only while it still holds.
struct Guards {
  /// A leaf that had no `.grad`.
  struct NoGradient {
    Tensor leaf;
    bool holds() const;
  };
  struct Leaf {
    Tensor tensor;
    Ref<Storage> storage;  ///< Module::to gives a tensor other memory
    bool requires_grad;
    uint64_t hooks;         ///< which it has
    uint32_t replacements;  ///< Storage::replacements()
    bool holds() const;
  };
  struct Flag {
    std::shared_ptr<const bool> flag;
    bool value;
    bool holds() const { return *flag == value; }
  };

  std::vector<NoGradient> no_gradients;
  std::vector<Leaf> leaves;
  std::vector<Flag> flags;

  bool hold() const;
  /// What no longer holds, in words.
  std::vector<std::string> broken() const;
};

/// What a run copies into a slot: an argument, or what `read` finds on the host (a `.grad`).
struct Input {
  int argument = -1;
  std::function<Tensor()> read = {};
  std::string name = {};  ///< of what is read: "the .grad of a leaf f32[2]"
};

/// An argument whose memory the function also reaches otherwise and writes to: it is not copied but
/// used where it lies, so that a replay is right for this argument alone.
struct ArgumentInPlace {
  int argument;
  Tensor tensor;  ///< of that memory
  bool is(const Tensor& other) const;
};

/// What a run does on the host when everything is computed: assigns a `.grad`, takes one away.
struct Effect {
  int output = -1;     ///< of the graph's outputs, which one is given
  Tensor tensor = {};  ///< else this tensor from outside is, or an undefined one
  std::function<void(const Tensor&)> apply = {};
  bool keeps = false;  ///< nothing is applied: the output is what backward needs
};

/// The gradient of a captured function whose results are differentiated outside.
struct CapturedBackward;  // graph/backward_plan.h

/// A function's graph and what surrounds it.
struct Captured {
  Graph graph;
  std::vector<Input> inputs;  ///< what goes into each of the graph's inputs
  std::vector<ArgumentInPlace> in_place;
  size_t results = 0;  ///< the first outputs are what the function returned
  /// Results without a history; one may lie in the memory of an argument that has one.
  std::vector<size_t> detached;
  /// Results that are tensors from outside themselves, or arguments: their number, and which.
  struct Returned {
    size_t result;
    int argument = -1;
    Tensor tensor = {};  ///< where it is no argument
  };
  std::vector<Returned> returned;
  std::vector<Effect> effects;
  /// Slots that the function wrote to, and the outputs that then hold what was written: it goes
  /// back to where the slot was filled from.
  std::vector<std::pair<int, int>> write_backs;
  Guards guards;
  std::shared_ptr<const Companion> companion;
  std::shared_ptr<CapturedBackward> backward;  ///< null where no result has a history
  std::vector<Tensor> written;                 ///< external tensors the graph writes to
  Device device;
  /// The most bytes of arguments and results that eager execution holds at once, without what
  /// kernels work in.
  size_t eager_bytes = 0;
  /// What the function threw after it had done what is captured; null if it returned.
  std::exception_ptr error;
};

/// The slot that a tensor is copied into: dense, in the tensor's memory format.
TensorSpec slot_spec(const Tensor& t);

/// Runs `function` once on tensors without values and records what it does. Nothing is computed,
/// and every `.grad` is as before when it ends. If the function throws, so does this.
Captured capture(const TensorFunction& function, std::span<const TensorSpec> inputs);
/// The same for these arguments, whose memory the function may also reach otherwise. What a
/// function throws is kept beside what it did before, but for Unsupported, which it throws.
Captured capture(const TensorFunction& function, std::span<const Tensor> arguments);

/// While a graph is captured: a tensor of the host that each run reads anew, as a traced tensor.
Tensor capture_input(const Tensor& now, std::function<Tensor()> read, const std::string& name);
/// While a graph is captured: what each run does with the value that a tensor has then.
void capture_effect(const Tensor& value, std::function<void(const Tensor&)> apply);

}  // namespace mica

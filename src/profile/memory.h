#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mica/core/device.h"
#include "mica/core/scope.h"

namespace mica {
class Plan;
}

// What a training step needs of memory, read off its plan: nothing is run.
namespace mica::profiler {

/// Calls of one module and phase that hold memory.
struct Holder {
  std::string op;
  std::string module;
  Phase phase = Phase::forward;
  size_t bytes = 0;
};

/// The memory of a compiled step, in bytes by what it is for.
struct StepMemory {
  size_t weights = 0;    ///< parameters, and buffers that the step writes to
  size_t optimizer = 0;  ///< what the update alone uses: moments, rates, the count of steps
  size_t others = 0;     ///< other tensors outside: data, constants
  size_t kept = 0;       ///< made once of weights that do not change
  size_t arena = 0;      ///< for everything that a run makes
  /// What lies in the arena when most of it is in use.
  size_t arguments = 0;
  size_t activations = 0;  ///< made by forward
  size_t gradients = 0;    ///< made by backward
  size_t updates = 0;      ///< made by the optimizer's step
  size_t workspace = 0;
  /// The same at every call of the step.
  struct Level {
    std::string call;  ///< "conv2d_wgrad, features.0 backward"
    size_t arguments = 0, activations = 0, gradients = 0, updates = 0, workspace = 0;
    size_t total() const { return arguments + activations + gradients + updates + workspace; }
  };
  std::vector<Level> levels;
  std::vector<Holder> outside;  ///< weights by their modules, the optimizer's, and data
  std::string at;               ///< which call runs then: "conv2d_wgrad, features.0 backward"
  std::vector<Holder> holders;  ///< for whom it lies there, most first
  size_t eager = 0;             ///< what eager execution holds instead of the arena
  size_t total() const { return weights + optimizer + others + kept + arena; }
};
StepMemory memory_of(const Plan& plan);
/// As text for a terminal.
std::string table(const StepMemory& memory, int most = 8);

/// The memory of a compiled function that ran in a profile.
struct MemoryUse {
  std::string name;  ///< what it is made of, in a few words
  StepMemory memory;
};

/// What tensors held when they held most in a profile of eager execution.
struct PeakMemory {
  Device device;         ///< the first GPU, or the CPU where none was used
  size_t weights = 0;    ///< made before the profile, and what an update uses beside passes
  size_t optimizer = 0;  ///< what updates write to and nothing else uses
  size_t data = 0;       ///< made before the profile, and read: data, weights that do not change
  size_t before = 0;  ///< from before the profile, of which no op is known; the allocator's waste
  size_t activations = 0;
  size_t gradients = 0;
  size_t updates = 0;
  size_t workspace = 0;
  size_t others = 0;                 ///< of no op that was recorded
  std::vector<Holder> holders = {};  ///< for whom it is there, most first
  size_t total() const {
    return weights + optimizer + data + before + activations + gradients + updates + workspace +
           others;
  }
};

/// A block that the caching allocator of a device had.
struct HeldBlock {
  int segment = 0;  ///< blocks of one lie side by side
  size_t bytes = 0;
  bool free = false;
  std::string op;  ///< for which it was taken; empty: outside of ops
};

/// The largest batch whose training step fits into so many bytes; 0: not even one. `step(batch)`
/// makes tensors of this batch and takes a step with them, all on the null device: it is planned
/// for a few batches, and nothing is computed. What libraries want as workspace beside is not known
/// there.
int64_t largest_batch(const std::function<void(int64_t batch)>& step, size_t bytes);

}  // namespace mica::profiler

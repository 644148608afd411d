#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "mica/op/op_def.h"

namespace mica {

/// A kernel that was chosen for certain specs, with its state: what eager dispatch caches and a
/// Plan holds.
struct Prepared {
  const OpDef* op = nullptr;
  const Kernel* kernel = nullptr;
  std::shared_ptr<const KernelState> state;
  IndexSet contiguous;     ///< inputs that must be copied to row-major order first
  IndexSet channels_last;  ///< inputs that must be copied to channels_last first
  bool needs_copies() const { return !contiguous.empty() || !channels_last.empty(); }
  void run(const void* params, const Call& call) const { kernel->run(*op, params, *state, call); }
  void keep(const void* params, const Call& call) const { kernel->keep(*op, params, *state, call); }
};

/// Chooses the first kernel of the op's list that prefers these specs (else the first that can) and
/// prepares it, or takes it from the cache. Raises Unsupported with every refusal.
std::shared_ptr<const Prepared> select(const OpDef& op, ParamsRef params, const Specs& specs,
                                       Device device);

/// The spec input `i` has once the copies that `prepared` asks for are made.
TensorSpec wanted_spec(const Prepared& prepared, int i, const TensorSpec& spec);

}  // namespace mica

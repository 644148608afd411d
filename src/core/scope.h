#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace mica {

/// The part of a training step that a call belongs to.
enum class Phase : uint8_t { forward, backward, update };

/// Where a call comes from; a captured node keeps it.
struct Scope {
  std::string module = {};  ///< its path below the module that was called; empty outside of one
  Phase phase = Phase::forward;
  std::string caller = {};  ///< the line of the program, "train.py:31", where a front end knows it
  bool operator==(const Scope&) const = default;
};
/// "features.0 backward train.py:31".
std::string to_string(const Scope& scope);

class ModuleScope;

/// What the calling thread works for.
struct ScopeState {
  const ModuleScope* module = nullptr;
  Phase phase = Phase::forward;
  uint64_t differentiates = 0;  ///< the sequence number of the call whose gradient is computed
};
extern constinit thread_local ScopeState t_scope;

/// Says that the thread is in a module's forward while it lives. The name, under which the module
/// is registered, must stay; null for one that is not.
class ModuleScope {
 public:
  explicit ModuleScope(const std::string* name)
      : name_(name), outer_(std::exchange(t_scope.module, this)) {}
  ~ModuleScope() { t_scope.module = outer_; }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

  /// "features.0".
  std::string path() const;

 private:
  const std::string* name_;
  const ModuleScope* outer_;
};

/// Says that the thread is in backward or in an optimizer's step.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase, uint64_t differentiates = 0)
      : before_(std::exchange(t_scope, {nullptr, phase, differentiates})) {}
  ~PhaseScope() { t_scope = before_; }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  ScopeState before_;
};

/// A copy of a name that stays for good; equal names are the same one.
const std::string* kept_name(const std::string& name);

/// How a front end says which line of a program the calling thread is at; null takes it away.
using CallerName = std::string (*)();
void set_caller_name(CallerName name);

/// Where the calling thread is now. Of a gradient's calls neither module nor caller: those are the
/// differentiated call's.
Scope current_scope();

}  // namespace mica

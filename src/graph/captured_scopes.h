#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "mica/core/scope.h"

namespace mica {

/// The path of what a module calls itself that has none: the outermost, where its parts have
/// theirs.
inline constexpr const char* kTopModule = "(top)";

/// Where the calls of a graph that is captured come from. Gradients belong to the module of what
/// they are the gradient of, which the numbers of the tape tell.
class CapturedScopes {
 public:
  /// Where the thread is now. `sequence` is the tape's last number, `forward` what was noted of the
  /// graph that this one differentiates, or null.
  std::shared_ptr<const Scope> now(uint64_t sequence, const CapturedScopes* forward) {
    Scope scope = current_scope();
    if (t_scope.differentiates > 0 && scope.module.empty()) {
      const Scope* of = at(t_scope.differentiates);
      if (!of && forward) of = forward->at(t_scope.differentiates);
      if (of) {
        scope.module = of->module;
        scope.caller = of->caller;
      }
    }
    if (t_scope.module && scope.module.empty()) scope.module = kTopModule;
    if (from_.empty() || *from_.back().second != scope)
      from_.emplace_back(sequence, std::make_shared<const Scope>(std::move(scope)));
    return from_.back().second;
  }

 private:
  /// Where the call of that number was made; null where that was before.
  const Scope* at(uint64_t sequence) const {
    const auto after = std::partition_point(from_.begin(), from_.end(),
                                            [&](const auto& s) { return s.first < sequence; });
    return after == from_.begin() ? nullptr : std::prev(after)->second.get();
  }

  /// From which number of the tape on the thread was where.
  std::vector<std::pair<uint64_t, std::shared_ptr<const Scope>>> from_;
};

}  // namespace mica

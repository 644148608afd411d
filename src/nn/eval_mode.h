#pragma once

#include <utility>
#include <vector>

#include "mica/nn/module.h"

namespace mica::nn {

/// Evaluation mode while it lives, for every module below one, each of which then has its own
/// again.
class EvalMode {
 public:
  explicit EvalMode(const Module& module) {
    module.apply([&](const Module& m) {
      before_.emplace_back(m, m.training());
      m.impl()->set_training(false);
    });
  }
  ~EvalMode() {
    // Backwards: where a module occurs twice, its first entry is the right one.
    for (size_t i = before_.size(); i-- > 0;)
      before_[i].first.impl()->set_training(before_[i].second);
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<Module, bool>> before_;
};

}  // namespace mica::nn

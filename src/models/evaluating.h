#pragma once

#include "mica/nn/module.h"

namespace mica::models {

/// A module evaluates while it lives, and is in the mode it was in afterwards.
class Evaluating {
 public:
  explicit Evaluating(const nn::Module& module) : module_(module), training_(module.training()) {
    module_.eval();
  }
  ~Evaluating() { module_.train(training_); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  nn::Module module_;
  bool training_;
};

}  // namespace mica::models

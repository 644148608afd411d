#pragma once

#include <string>

#include "mica/onnx/build.h"
#include "mica/onnx/onnx.h"

namespace mica::onnx {

struct ImportedImpl::Parts {
  std::string name;
  Built built;
};

/// Runs a model's nodes one after the other, from its constants and what `set` gives.
class Run {
 public:
  Run(const Built& built, Device device, bool training);

  void set(int slot, Value value) { values_[static_cast<size_t>(slot)] = std::move(value); }
  std::vector<Value> operator()(const Program& program);

 private:
  void step(const Step& step);

  std::vector<Value> values_;
  Device device_;
  bool training_;
  Call::RunGraph run_graph_;
};

}  // namespace mica::onnx

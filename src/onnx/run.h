#pragma once

#include <string>

#include "mica/onnx/build.h"
#include "mica/onnx/onnx.h"

namespace mica::onnx {

struct ImportedImpl::Parts {
  std::string name;
  Built built;
};

class Run;

/// Who runs a program otherwise than step by step (onnx/segments.h).
class Cutter {
 public:
  virtual ~Cutter() = default;
  virtual std::vector<Value> run(Run& run, const Program& program) = 0;
};

/// Runs a model's nodes one after the other, from its constants and what `set` gives. With a cutter
/// programs are run by it, but while a graph is captured.
class Run {
 public:
  Run(const Built& built, Device device, bool training, Cutter* cutter = nullptr);

  void set(int slot, Value value) { values_[static_cast<size_t>(slot)] = std::move(value); }
  const Value& operator[](int slot) const { return values_[static_cast<size_t>(slot)]; }
  Device device() const { return device_; }
  bool training() const { return training_; }

  std::vector<Value> operator()(const Program& program);
  void step(const Step& step);
  std::vector<Value> outputs_of(const Program& program) const;

 private:
  std::vector<Value> values_;
  Device device_;
  bool training_;
  Cutter* cutter_;
  Call::RunGraph run_graph_;
};

}  // namespace mica::onnx

#pragma once

#include <map>
#include <string>
#include <vector>

#include "mica/op/dispatch.h"

namespace mica {

/// While it lives, ops of this thread run with a guard zone before and after every output,
/// workspace and input that they write to, and outputs start out as NaN. What a kernel did that it
/// must not do is kept in `faults`.
class GuardedRun : public Recorder {
 public:
  GuardedRun() : before_(exchange_recorder(this)) {}
  ~GuardedRun() override { exchange_recorder(before_); }
  GuardedRun(const GuardedRun&) = delete;
  GuardedRun& operator=(const GuardedRun&) = delete;

  Outputs record(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                 std::span<const TensorSpec> out) override;
  void depends_on(const std::shared_ptr<const bool>& /*flag*/) override {}

  std::vector<std::string> faults;

 private:
  Tensors run(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
              std::span<const TensorSpec> out);

  Recorder* before_;
};

}  // namespace mica

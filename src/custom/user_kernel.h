#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "mica/custom/compiler.h"
#include "mica/custom/launch_params.h"
#include "mica/custom/parameter.h"
#include "mica/op/op_def.h"

namespace mica {

using KernelArgument = std::variant<Tensor, Number>;

/// What makes machine code of a source, and calls it.
class KernelProvider {
 public:
  virtual ~KernelProvider() = default;
  /// "float const*, float*, int".
  virtual std::string signature() = 0;
  /// What a launch on a device takes.
  virtual void* on(int device) = 0;
  virtual void launch(const Call& call, void* kernel, const LaunchParams& params,
                      const void* const* arguments, const char* name) const = 0;
};

/// What stands behind the kernels of one source: an operator without outputs, whose inputs are the
/// tensors.
class UserKernel {
 public:
  UserKernel(std::string name, DeviceKind device, bool strided,
             std::unique_ptr<KernelProvider> provider);

  /// `params` without the numbers, which are among the arguments.
  void launch(LaunchParams params, std::span<const KernelArgument> arguments) const;
  const std::string& name() const { return name_; }
  const std::vector<KernelParameter>& parameters() const { return parameters_; }

 private:
  bool launch_now(const LaunchParams& params, std::span<const KernelArgument> arguments) const;
  const Tensor& tensor_for(size_t i, const KernelArgument& argument) const;
  Number number_for(size_t i, const KernelArgument& argument) const;
  void check_tensor(size_t i, const Tensor& t) const;

  static const UserKernel& of(const OpDef& op) {
    return *static_cast<const UserKernel*>(op.data.get());
  }
  static void infer(const OpDef&, const LaunchParams&, std::span<const TensorSpec>, OutSpecs&) {}
  static bool mutates(const OpDef& op, const LaunchParams&, int input, int);
  static Support supports(const OpDef& op, const LaunchParams&, const Specs&);
  struct State : KernelState {
    void* kernel = nullptr;
  };
  static std::shared_ptr<State> prepare(const OpDef& op, const LaunchParams&, const Specs& specs);
  static void run(const OpDef& op, const LaunchParams& p, const State& state, const Call& call);

  std::string name_;
  std::string op_name_;  ///< told from an operator of the same name, whose kernel it may be
  DeviceKind device_;
  bool strided_;
  std::unique_ptr<KernelProvider> provider_;
  std::vector<KernelParameter> parameters_;
  std::vector<bool> written_;  ///< of the tensors, in order
  OpDef op_;
};

/// Of equal sources there is one, so that a kernel that is made again and again is compiled once.
const UserKernel& interned_kernel(
    const KernelSource& source, DeviceKind device, bool strided,
    const std::function<std::unique_ptr<KernelProvider>(const KernelSource&)>& provider);

}  // namespace mica

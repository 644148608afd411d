#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mica/op/op_def.h"

namespace mica {

/// The parameters of a call of a user's operator that are no tensors: any object, kept under a text
/// that tells it from others. Equal texts are one.
class UserValues {
 public:
  UserValues() = default;
  UserValues(const std::string& text, const std::shared_ptr<const void>& object);
  const std::string& text() const;
  const void* object() const;
  bool operator==(const UserValues&) const = default;
  uint64_t id() const { return id_; }

 private:
  uint64_t id_ = 0;  ///< 0: there are none
};
inline std::string print_field(const UserValues& v) { return v.text(); }
inline uint64_t hash_field(uint64_t h, const UserValues& v) { return hash_mix(h, v.id()); }

struct UserParams {
  UserValues values;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("values", self.values);
  }
};

/// One way to compute a user's operator. `run` computes into the outputs it is given; on CUDA it
/// launches kernels and calls nothing that makes a tensor.
struct UserOpKernel {
  std::string name;
  DTypeSet dtypes = kAllDTypes;  ///< of the inputs
  std::function<void(const UserValues& values, const Tensors& in, const Tensors& out)> run;
};

/// An operator from closures, for languages in front of C++; a plugin in C++ defines an OpDef.
struct UserOp {
  static constexpr size_t kMostKernels = 8;

  std::string name;
  std::vector<Slot> in;
  std::vector<Slot> out;
  std::vector<bool> written;  ///< of the inputs
  DTypeSet dtypes = kComputedDTypes;
  Precision precision = Precision::any;
  std::function<void(const UserValues& values, std::span<const TensorSpec> in, OutSpecs& out)>
      infer;
  std::function<Tensors(const UserValues& values, const VjpArgs& args)> vjp;
  std::vector<Saved> saved_inputs;
  std::vector<Saved> saved_outputs;
  std::string no_gradient = "none was given";
};

/// Adds it to the operators, for as long as the process lives. Raises Unsupported where there is
/// one of that name.
const OpDef& register_user_op(UserOp op);
/// Adds a kernel behind those of its device.
void add_kernel(const OpDef& op, DeviceKind device, UserOpKernel kernel);
/// Gives it a gradient, which reads what it saves.
void set_gradient(const OpDef& op, std::function<Tensors(const UserValues&, const VjpArgs&)> vjp,
                  std::vector<Saved> inputs, std::vector<Saved> outputs);

}  // namespace mica

#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "mica/core/tensor.h"
#include "mica/op/precision.h"

namespace mica {

struct OpDef;  // op/op_def.h

/// The low dtype of each kind of device; none where ops compute in what they are given.
struct AutocastMode {
  std::array<std::optional<DType>, kDeviceKinds> low = {};

  bool on() const;
  bool operator==(const AutocastMode&) const = default;
};
/// Of this thread.
const AutocastMode& autocast_mode();

/// While it lives, ops that are called in this thread on tensors of one kind of device compute in
/// the dtype that suits them (Precision, which `mica ops` shows): products in the low dtype, sums
/// and losses in f32. Floating inputs are cast, but those of f64, and those of ops that write.
/// Casts of parameters are kept until the outermost region ends or the parameter is written to.
/// Gradients are computed with it off, in the dtypes of the forward pass.
class Autocast {
 public:
  /// dtype: f16 or bf16, default_low(device) unless given. With enabled = false the region computes
  /// in what it is given.
  explicit Autocast(DeviceKind device, std::optional<DType> dtype = {}, bool enabled = true);
  /// The mode of another place or time.
  explicit Autocast(const AutocastMode& mode);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  AutocastMode before_;
};

/// As in PyTorch: f16 on CUDA, where its range asks for a GradScaler, and bf16 on the CPU.
DType default_low(DeviceKind device);

/// What Autocast does, for regions that are not blocks of C++: gives the mode before, which
/// leave_autocast wants back.
AutocastMode enter_autocast(const AutocastMode& mode);
void leave_autocast(const AutocastMode& before);
/// `mode` with another low dtype for a kind of device, or none. Raises DTypeError for a dtype that
/// is not low.
AutocastMode with_low(AutocastMode mode, DeviceKind device, std::optional<DType> low);

/// While it lives no cast from outside is used, and none leaves: for code whose calls are recorded
/// apart.
class OwnCasts {
 public:
  OwnCasts();
  ~OwnCasts();
  OwnCasts(const OwnCasts&) = delete;
  OwnCasts& operator=(const OwnCasts&) = delete;

 private:
  struct Kept;
  std::shared_ptr<Kept> before_;
};

/// For a function that is made of ops: where autocast is on, those without a precision of their own
/// compute in this one.
class ComputedIn {
 public:
  explicit ComputedIn(Precision precision);
  ~ComputedIn();
  ComputedIn(const ComputedIn&) = delete;
  ComputedIn& operator=(const ComputedIn&) = delete;

 private:
  Precision before_;
};

/// Dispatch's side. Whether autocast is on in this thread; the inputs that a call gets instead of
/// its own, or nothing where they stay.
bool autocasts();
std::optional<Tensors> autocast_inputs(const OpDef& op, std::span<const Tensor> inputs);

/// Implemented in ops/copy.
Tensor cast(const Tensor& x, DType dtype);

}  // namespace mica

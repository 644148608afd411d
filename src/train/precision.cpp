#include "mica/train/precision.h"

#include "mica/core/check.h"
#include "mica/op/settings.h"

namespace mica::train {

std::optional<DType> low_dtype(const std::string& precision) {
  if (precision == "bf16") return DType::bf16;
  if (precision == "f16") return DType::f16;
  check(precision.empty() || precision == "f32" || precision == "tf32",
        "Trainer: precision must be \"f32\", \"tf32\", \"bf16\" or \"f16\", got \"{}\"", precision);
  return {};
}

ProductsRegion::ProductsRegion(const std::string& precision) {
  if (precision != "f32" && precision != "tf32") return;
  before_ = allow_tf32();
  set_allow_tf32(precision == "tf32");
}

ProductsRegion::~ProductsRegion() {
  if (before_) set_allow_tf32(*before_);
}

ForwardRegion::ForwardRegion(const std::string& precision, Device device) {
  if (precision.empty()) return;
  const std::optional<DType> low = low_dtype(precision);
  autocast_.emplace(device.kind, low, low.has_value());
}

}  // namespace mica::train

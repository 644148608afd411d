#pragma once

#include <functional>
#include <map>
#include <string>

#include "mica/mica.h"

namespace mica::tool {

/// What a call cannot do without: bytes read and written once, multiplications and additions.
struct Work {
  double bytes = 0;
  double flops = 0;
  std::string arithmetic = "f32";  ///< or tf32, f16, bf16: which products set the floor
};

/// Times calls and prints each beside its floor: the bytes at the rate of a copy, or the arithmetic
/// at the rate of a large matrix product, whichever takes longer. Both rates are measured here.
class OpsBench {
 public:
  /// Only rows whose name contains `only`.
  OpsBench(Device device, std::string only, bool json);

  Device device() const { return device_; }
  bool wants(const std::string& name) const { return name.find(only_) != std::string::npos; }
  /// Of several ways to make the call the fastest counts.
  void row(const std::string& name, const Work& work,
           const std::vector<std::function<void()>>& calls);
  void row(const std::string& name, double bytes, const std::function<void()>& call) {
    row(name, {.bytes = bytes}, {call});
  }

  /// Bytes per second, read and written; multiplications and additions per second.
  double copy_rate();
  double product_rate(const std::string& arithmetic);

 private:
  double seconds_of(const std::function<void()>& call) const;

  Device device_;
  std::string only_;
  bool json_;
  double copy_rate_ = 0;
  std::map<std::string, double> product_rates_;
};

/// The dtype of "f32", "tf32", "f16", "bf16". Sets whether TF32 may be used.
DType use_arithmetic(const std::string& name);

/// Matrix products and convolutions.
void bench_products(OpsBench& bench);

}  // namespace mica::tool

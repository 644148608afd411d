#pragma once

#include <optional>
#include <string>

#include "mica/op/autocast.h"

// What TrainerOptions::precision means.
namespace mica::train {

/// The dtype that autocast computes in; none for "f32", "tf32" and nothing. Raises for other words.
std::optional<DType> low_dtype(const std::string& precision);

/// While it lives, f32 products may use TF32 or not, as a precision says.
class ProductsRegion {
 public:
  explicit ProductsRegion(const std::string& precision);
  ~ProductsRegion();
  ProductsRegion(const ProductsRegion&) = delete;
  ProductsRegion& operator=(const ProductsRegion&) = delete;

 private:
  std::optional<bool> before_;
};

/// While it lives, a model and its loss compute in a precision on a device.
class ForwardRegion {
 public:
  ForwardRegion(const std::string& precision, Device device);

 private:
  std::optional<Autocast> autocast_;
};

}  // namespace mica::train

// Methods of Tensor that no Function describes: copies and writes.
#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/method.h"
#include "mica/ops/view/view.h"

namespace mica {

Tensor Tensor::clone() const { return mica::clone(*this); }
Tensor Tensor::contiguous() const { return mica::contiguous(*this); }
Tensor Tensor::contiguous(MemoryFormat format) const { return mica::contiguous(*this, format); }
Tensor Tensor::to(Device device) const { return mica::to(*this, device); }
Tensor Tensor::to(DType dtype) const { return mica::cast(*this, dtype); }
Tensor Tensor::cast(DType dtype) const { return mica::cast(*this, dtype); }

Tensor Tensor::view(const Shape& shape) const {
  const Tensor made = mica::reshape(*this, shape);
  check<ShapeError>(made.impl()->storage == impl()->storage,
                    "view: a tensor of shape {} and strides {} cannot be seen as {} without a "
                    "copy; reshape makes one",
                    this->shape(), strides(), shape);
  return made;
}

const Tensor& Tensor::copy_(const Tensor& source) const {
  mica::copy_(*this, source);
  return *this;
}
const Tensor& Tensor::fill_(Number value) const {
  mica::fill_(*this, value);
  return *this;
}
const Tensor& Tensor::zero_() const { return fill_(0); }
const Tensor& Tensor::add_(const Tensor& other) const { return overwrite(*this, add(other)); }
const Tensor& Tensor::add_(Number other) const { return overwrite(*this, add(other)); }
const Tensor& Tensor::sub_(const Tensor& other) const { return overwrite(*this, sub(other)); }
const Tensor& Tensor::sub_(Number other) const { return overwrite(*this, sub(other)); }
const Tensor& Tensor::mul_(const Tensor& other) const { return overwrite(*this, mul(other)); }
const Tensor& Tensor::mul_(Number other) const { return overwrite(*this, mul(other)); }
const Tensor& Tensor::div_(const Tensor& other) const { return overwrite(*this, div(other)); }
const Tensor& Tensor::div_(Number other) const { return overwrite(*this, div(other)); }

}  // namespace mica

#include "mica/ops/concat/stacks.h"

#include "mica/core/check.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/view/rearrange.h"

namespace mica {
namespace {

Tensors each(const char* op, const Tensors& tensors, Tensor (*f)(const Tensor&)) {
  check<ShapeError>(!tensors.empty(), "{}: expected at least one tensor", op);
  Tensors results;
  for (const Tensor& t : tensors) results.push_back(f(t));
  return results;
}

}  // namespace

Tensor hstack(const Tensors& tensors) {
  const Tensors parts = each("hstack", tensors, atleast_1d);
  return concat(parts, parts[0].rank() == 1 ? 0 : 1);
}

Tensor vstack(const Tensors& tensors) { return concat(each("vstack", tensors, atleast_2d), 0); }

Tensor dstack(const Tensors& tensors) { return concat(each("dstack", tensors, atleast_3d), 2); }

}  // namespace mica

#include "mica/ops/concat/stacks.h"

#include "mica/core/check.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/view/rearrange.h"
#include "mica/ops/view/view.h"

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

Tensors unbind(const Tensor& x, int64_t dim) {
  Tensors parts(static_cast<size_t>(x.size(normalize_axis(dim, x.rank(), "unbind"))));
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = select(x, dim, static_cast<int64_t>(i));
  return parts;
}

Tensors broadcast_tensors(const Tensors& tensors) {
  Shape shape;
  for (const Tensor& t : tensors) shape = broadcast_shapes(shape, t.shape(), "broadcast_tensors");
  Tensors all;
  for (const Tensor& t : tensors) all.push_back(expand(t, shape));
  return all;
}

}  // namespace mica

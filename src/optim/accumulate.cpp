#include "mica/optim/accumulate.h"

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/view/view.h"

namespace mica::optim {

Tensor accumulate_backward(const std::function<Tensor(const Tensors& part)>& loss,
                           const Tensors& batch, int64_t parts) {
  check(parts >= 1, "optim::accumulate_backward: expected at least 1 part, got {}", parts);
  check(!batch.empty(), "optim::accumulate_backward: expected tensors, got none");
  const int64_t rows = batch[0].rank() > 0 ? batch[0].shape()[0] : 0;
  for (const Tensor& t : batch)
    check<ShapeError>(t.rank() > 0 && t.shape()[0] == rows && rows > 0 && rows % parts == 0,
                      "optim::accumulate_backward: expected tensors whose first axis is one "
                      "multiple of {} parts, got {} and {}",
                      parts, batch[0].spec(), t.spec());
  const int64_t each = rows / parts;
  Tensor sum;
  for (int64_t i = 0; i < parts; ++i) {
    Tensors part;
    for (const Tensor& t : batch) part.push_back(slice(t, 0, i * each, (i + 1) * each));
    const Tensor scaled = div(loss(part), static_cast<double>(parts));
    scaled.backward();
    sum = sum.defined() ? add(sum, scaled.detach()) : scaled.detach();
  }
  return sum;
}

}  // namespace mica::optim

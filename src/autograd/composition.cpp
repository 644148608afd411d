#include "mica/op/composition.h"

#include <numeric>

#include "mica/autograd/tape.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

/// Half types are computed with in f32, as kernels do: between ops they would round too much away.
Tensor in_f32(const Tensor& x) {
  return x.dtype() == DType::f16 || x.dtype() == DType::bf16 ? cast(x, DType::f32) : x;
}

}  // namespace

Tensor alias(const Tensor& t) {
  Dims axes = Dims::filled(t.rank(), 0);
  std::iota(axes.begin(), axes.end(), 0);
  return permute(t, axes);
}

Tensors differentiate(const std::function<Tensors(std::span<const Tensor> in)>& composition,
                      const VjpArgs& args) {
  const bool again = grad_enabled();
  const GradMode recording(true);
  // Each input as a fresh end of the tape: the pass below stops there.
  Tensors in(args.in.begin(), args.in.end());
  Tensors ends;
  std::vector<size_t> slots;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined() || !is_differentiable(in[i].dtype())) continue;
    if (!args.needs(static_cast<int>(i))) {
      in[i] = in_f32(in[i].detach());
      continue;
    }
    const Tensor end =
        again && in[i].requires_grad() ? alias(in[i]) : in[i].detach().set_requires_grad();
    ends.push_back(end);
    in[i] = in_f32(end);
    slots.push_back(i);
  }
  Tensors grads(in.size());
  Tensors outputs;
  Tensors cotangents;
  const Tensors made = composition(in);
  for (size_t i = 0; i < made.size(); ++i) {
    if (i >= args.grad.size() || !args.grad[i].defined() || !made[i].requires_grad()) continue;
    outputs.push_back(made[i]);
    cotangents.push_back(cast(args.grad[i], made[i].dtype()));
  }
  if (outputs.empty() || ends.empty()) return grads;
  const Tensors found =
      grad(outputs, ends, cotangents, {.retain_graph = again, .create_graph = again});
  for (size_t k = 0; k < slots.size(); ++k) grads[slots[k]] = found[k];
  return grads;
}

}  // namespace mica

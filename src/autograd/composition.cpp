#include "mica/op/composition.h"

#include <numeric>

#include "mica/autograd/autograd.h"
#include "mica/ops/view/view.h"

namespace mica {

namespace {

/// The same tensor as the output of a node of its own.
Tensor alias(const Tensor& x) {
  Dims axes = Dims::filled(x.rank(), 0);
  std::iota(axes.begin(), axes.end(), 0);
  return permute(x, axes);
}

}  // namespace

Tensors differentiate(const std::function<Tensors(std::span<const Tensor> in)>& composition,
                      const VjpArgs& args) {
  const bool again = grad_enabled();
  const GradMode recording(true);
  // Each input as a fresh end of the tape: the pass below stops there.
  Tensors in(args.in.begin(), args.in.end());
  Tensors ends;
  std::vector<size_t> slots;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined() || !is_floating(in[i].dtype())) continue;
    if (!args.needs(static_cast<int>(i))) {
      in[i] = in[i].detach();
      continue;
    }
    in[i] = again && in[i].requires_grad() ? alias(in[i]) : in[i].detach().set_requires_grad();
    ends.push_back(in[i]);
    slots.push_back(i);
  }
  Tensors grads(in.size());
  Tensors outputs;
  Tensors cotangents;
  const Tensors made = composition(in);
  for (size_t i = 0; i < made.size(); ++i) {
    if (i >= args.grad.size() || !args.grad[i].defined() || !made[i].requires_grad()) continue;
    outputs.push_back(made[i]);
    cotangents.push_back(args.grad[i]);
  }
  if (outputs.empty() || ends.empty()) return grads;
  const Tensors found =
      grad(outputs, ends, cotangents, {.retain_graph = again, .create_graph = again});
  for (size_t k = 0; k < slots.size(); ++k) grads[slots[k]] = found[k];
  return grads;
}

}  // namespace mica

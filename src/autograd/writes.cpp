// Writes in place where a gradient flows.
#include <algorithm>
#include <span>
#include <vector>

#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"

namespace mica {
namespace {

/// A view of a tensor by calls of view ops, the first one on the tensor itself.
struct ViewCall {
  const OpDef* op;
  AnyParams params;
};
struct ViewPath {
  Tensor root;
  std::vector<ViewCall> calls;

  explicit ViewPath(const Tensor& t) : root(t) {
    while (const GradView* view = view_of_root()) {
      calls.push_back({view->op, view->params});
      root = Tensor(view->of);
    }
    std::reverse(calls.begin(), calls.end());
  }

 private:
  const GradView* view_of_root() const {
    const AutogradMeta* meta = root.impl()->autograd.get();
    return meta ? meta->view.get() : nullptr;
  }
};

/// A tensor of which a part was overwritten: what is left of its history, and that of the part.
class PartWritten final : public GradNode {
 public:
  PartWritten(const ViewPath& path, const Tensor& part)
      : spec_(path.root.spec()), calls_(path.calls) {
    edges_ = {part.numel() == spec_.numel() ? GradEdge() : edge_of(path.root), edge_of(part)};
  }

  const char* name() const override { return "copy_into"; }

 private:
  Tensor part_of(Tensor whole) const {
    for (const ViewCall& c : calls_)
      whole = dispatch(*c.op, c.params.ref(), std::span<const Tensor>(&whole, 1))[0];
    return whole;
  }

  Tensors vjp(const Tensors& cotangents) override {
    // It has to lie as the tensor does for the same views to show the same of it.
    const Tensor g =
        contiguous(cotangents[0], spec_.is_channels_last() ? MemoryFormat::channels_last
                                                           : MemoryFormat::contiguous);
    Tensors grads(2);
    if (!edges_[0].empty()) {
      const Tensor left = ones_like(g);
      {
        const NoGrad guard;
        fill_(part_of(left), 0);
      }
      grads[0] = mul(g, left);
    }
    if (!edges_[1].empty()) grads[1] = part_of(g);
    return grads;
  }
  bool drop_saved() override { return false; }

  TensorSpec spec_;
  std::vector<ViewCall> calls_;
};

void check_writable(const Tensor& destination, const Tensor& root) {
  check(!(destination.is_leaf() && destination.requires_grad()),
        "copy_into: writes to a tensor that requires a gradient; do it under NoGrad, or on a "
        "detached tensor");
  check(!(root.is_leaf() && root.requires_grad()),
        "copy_into: writes to a view of a tensor {} that requires a gradient; do it under NoGrad, "
        "or on a detached tensor",
        root.spec());
  check<Unsupported>(root.is_traced() || !current_recorder(),
                     "copy_into: a compiled function writes something with a history to a tensor "
                     "from outside ({}); detach() it, or compute in a tensor made inside",
                     root.spec());
  check<Unsupported>(
      !root.impl()->shares || root.impl()->storage->use_count() == 1,
      "copy_into: something with a history is written to a tensor ({}) made by detach() or under "
      "NoGrad from another, which would not get the gradient; clone() it first",
      root.spec());
}

}  // namespace

void write_recorded(const Tensor& destination, const Tensor& value) {
  const ViewPath path(destination);
  check_writable(destination, path.root);
  // What is written may be a leaf: the history then begins with an alias of it.
  const Tensor source = value.requires_grad() && value.is_leaf() ? alias(value) : value;
  {
    const NoGrad guard;
    copy_(destination, source.detach());
  }
  if (path.calls.empty()) {
    set_history(destination, edge_of(source));
  } else {
    const auto node = make_ref<PartWritten>(path, source);
    node->produce({&path.root, 1});
  }
  destination.impl()->storage->note_history();
}

}  // namespace mica

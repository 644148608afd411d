#include <algorithm>
#include <atomic>

#include "mica/autograd/tape.h"
#include "mica/core/check.h"

namespace mica {
namespace {

std::atomic<uint64_t> g_id{0};
std::atomic<int64_t> g_leaf_hooks{0};

/// Takes the hook `id` of one of the lists of `hooks` away.
template <class List>
HookHandle handle_of(const std::shared_ptr<GradHooks>& hooks, List GradHooks::* list, uint64_t id) {
  return HookHandle([of = std::weak_ptr(hooks), list, id] {
    if (const auto there = of.lock())
      std::erase_if((*there).*list, [id](const auto& h) { return h.id == id; });
  });
}

/// Hooks of a leaf are counted while they are there.
const std::shared_ptr<GradHooks>& leaf_hooks(const Tensor& leaf) {
  auto& hooks = leaf.impl()->autograd->hooks;
  if (!hooks) {
    ++g_leaf_hooks;
    hooks = std::shared_ptr<GradHooks>(new GradHooks, [](GradHooks* h) {
      --g_leaf_hooks;
      delete h;
    });
  }
  return hooks;
}

}  // namespace

bool any_leaf_hooks() { return g_leaf_hooks.load(std::memory_order_relaxed) > 0; }

uint64_t hooks_stamp(const Tensor& leaf) {
  const GradHooks* hooks = leaf.impl()->autograd ? leaf.impl()->autograd->hooks.get() : nullptr;
  if (!hooks) return 0;
  // Ids are never used again.
  uint64_t stamp = 0;
  for (const GradHooks::Replace& h : hooks->replace) stamp = stamp * 31 + h.id;
  for (const GradHooks::After& h : hooks->after) stamp = stamp * 37 + h.id;
  return stamp;
}

Tensor GradHooks::apply(const Tensor& gradient) const {
  Tensor now = gradient;
  for (const Replace& hook : replace) {
    const Tensor other = hook.call(now);
    if (!other.defined()) continue;
    check<ShapeError>(other.shape() == now.shape(),
                      "add_hook: a hook must return a gradient of shape {}, got {}", now.shape(),
                      other.shape());
    check<DTypeError>(other.dtype() == now.dtype(),
                      "add_hook: a hook must return a gradient of {}, got {}", now.dtype(),
                      other.dtype());
    now = other;
  }
  return now;
}

HookHandle add_hook(const Tensor& tensor, GradHook hook) {
  const GradEdge edge = edge_of(tensor);
  check(!edge.empty(), "add_hook: the tensor does not require a gradient");
  const auto& hooks =
      edge.node ? edge.node->make_hooks(static_cast<size_t>(edge.output)) : leaf_hooks(tensor);
  hooks->replace.push_back({++g_id, std::move(hook)});
  return handle_of(hooks, &GradHooks::replace, hooks->replace.back().id);
}

HookHandle add_post_accumulate_hook(const Tensor& leaf,
                                    std::function<void(const Tensor& leaf)> hook) {
  check(leaf.requires_grad() && leaf.is_leaf(),
        "add_post_accumulate_hook: expected a leaf that requires a gradient");
  const auto& hooks = leaf_hooks(leaf);
  hooks->after.push_back({++g_id, std::move(hook)});
  return handle_of(hooks, &GradHooks::after, hooks->after.back().id);
}

}  // namespace mica

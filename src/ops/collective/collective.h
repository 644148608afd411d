#pragma once

#include "mica/ops/collective/communicator.h"

// Collectives: ops that every process of a group calls in the same order. They write their group's
// token, so that a compiled function keeps that order, and have gradients that are collectives too.
namespace mica {

struct CollectiveParams {
  int64_t group = 0;
  int64_t ranks = 1;  ///< of the group
  distributed::ReduceOp reduce = distributed::ReduceOp::sum;
  int64_t peer = 0;       ///< the root, destination or source
  bool deferred = false;  ///< the result is there after collective_wait alone

  template <class Self, class F>
  static void fields(Self& p, F&& f) {
    f("group", p.group), f("ranks", p.ranks), f("reduce", p.reduce), f("peer", p.peer),
        f("deferred", p.deferred);
  }
};

namespace distributed {

struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  int64_t group = 0;
};

/// The sum (…) over the ranks, in every one of them. Sums are made in the order of the ranks: each
/// gets the same bits, those of adding one tensor after the other; f16 and bf16 are added in f32.
Tensor all_reduce(const Tensor& x, const ReduceOptions& options = {});
/// (n, …) to (ranks * n, …): those of all ranks, one after the other.
Tensor all_gather(const Tensor& x, int64_t group = 0);
/// (ranks * n, …) to (n, …): the reduced part of this rank.
Tensor reduce_scatter(const Tensor& x, const ReduceOptions& options = {});
/// That of rank `root` of the group, in all of them.
Tensor broadcast(const Tensor& x, int64_t root = 0, int64_t group = 0);
/// (ranks * n, …): part r goes to rank r, and what comes from rank r is part r.
Tensor all_to_all(const Tensor& x, int64_t group = 0);
/// The result has no elements; what depends on it, as a loss that its sum is added to, lets the
/// receiver's gradient come back.
Tensor send(const Tensor& x, int64_t to, int64_t group = 0);
/// A tensor like `like`. Where that requires a gradient, the gradient goes back to the sender.
Tensor recv(const Tensor& like, int64_t from, int64_t group = 0);
/// Returns when all ranks have called it.
void barrier(int64_t group = 0, Device device = {});

/// The same while other work goes on: what they give is undefined until collective_wait. No
/// gradients.
Tensor start_all_reduce(const Tensor& x, const ReduceOptions& options = {});
Tensor start_reduce_scatter(const Tensor& x, const ReduceOptions& options = {});
/// Until `result`, of one of these with the input x, is there.
void collective_wait(const Tensor& result, const Tensor& x, int64_t group = 0);

}  // namespace distributed
}  // namespace mica

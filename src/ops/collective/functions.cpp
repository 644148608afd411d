// What users call: mica.distributed in Python.
#include "mica/op/function.h"
#include "mica/ops/collective/collective.h"

namespace mica {

template <>
struct Words<distributed::ReduceOp> {
  using E = distributed::ReduceOp;
  static constexpr std::pair<const char*, E> all[] = {
      {"sum", E::sum}, {"avg", E::avg}, {"max", E::max}, {"min", E::min}, {"product", E::product}};
};

/// Offered nowhere of the usual places: mica.distributed has them.
Functions collective_functions() {
  using distributed::ReduceOp;
  constexpr Offer kDistributed = {};
  return {
      {"all_reduce",
       "The sum over the ranks of a group, in every one of them; also avg, max, min and product. "
       "Sums are made in the order of the ranks: every rank gets the same bits.",
       {{[](const Tensor& x, ReduceOp op, int64_t group) {
           return distributed::all_reduce(x, {op, group});
         },
         {"input", {"op", "sum"}, {"group", 0}}}},
       kDistributed},
      {"all_gather",
       "The tensors (n, ...) of all ranks, one after the other: (ranks * n, ...).",
       {{[](const Tensor& x, int64_t group) { return distributed::all_gather(x, group); },
         {"input", {"group", 0}}}},
       kDistributed},
      {"reduce_scatter",
       "The part (n, ...) of this rank of the sum of all ranks' (ranks * n, ...); also avg, max, "
       "min and product.",
       {{[](const Tensor& x, ReduceOp op, int64_t group) {
           return distributed::reduce_scatter(x, {op, group});
         },
         {"input", {"op", "sum"}, {"group", 0}}}},
       kDistributed},
      {"broadcast",
       "The tensor of rank root, in all ranks.",
       {{[](const Tensor& x, int64_t root, int64_t group) {
           return distributed::broadcast(x, root, group);
         },
         {"input", {"root", 0}, {"group", 0}}}},
       kDistributed},
      {"all_to_all",
       "Part r of the first axis goes to rank r; what comes from rank r is part r of the result.",
       {{[](const Tensor& x, int64_t group) { return distributed::all_to_all(x, group); },
         {"input", {"group", 0}}}},
       kDistributed},
      {"send",
       "Sends a tensor to a rank. The result has no elements; what depends on it, as a loss that "
       "its sum is added to, lets the receiver's gradient come back.",
       {{[](const Tensor& x, int64_t to, int64_t group) { return distributed::send(x, to, group); },
         {"input", "to", {"group", 0}}}},
       kDistributed},
      {"recv",
       "A tensor like the one given, from a rank. Where that one requires a gradient, the "
       "gradient goes back to the sender.",
       {{[](const Tensor& like, int64_t from, int64_t group) {
           return distributed::recv(like, from, group);
         },
         {"like", "source", {"group", 0}}}},
       kDistributed},
  };
}

}  // namespace mica

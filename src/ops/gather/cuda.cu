#include "mica/ops/gather/cuda_indexed.h"
#include "mica/ops/gather/gather.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

using namespace mica::cuda;

// Inputs of gather and index_select: x, index. Of the others: x or nothing, index, src.

/// The dense side has index's shape; the table is x of gather, the result of scatter.
Indexed along_axis(int64_t axis, const TensorSpec& dense, const TensorSpec& table,
                   const TensorSpec& index) {
  Indexed how{dense.shape, dense.strides, index.strides, table.strides, 0, {}};
  for (int i = 0; i < dense.rank(); ++i) how.dense_axes.push_back(i == axis ? -1 : i);
  if (dense.rank() == 0) return how;
  const auto at = static_cast<int>(axis);
  how.table[at] = 0;
  how.scale = table.strides[at];
  return how;
}

/// The same for a 1-d index of whole slices.
Indexed slices(int64_t axis, const TensorSpec& dense, const TensorSpec& table,
               const TensorSpec& index) {
  TensorSpec spread = dense;
  spread.strides = Dims::filled(dense.rank(), 0);
  spread.strides[static_cast<int>(axis)] = index.strides[0];
  return along_axis(axis, dense, table, spread);
}

/// The reader of an index of `table`.
template <class P>
IndexReader reader(const char* op, const P& p, const Call& c, const TensorSpec& table,
                   const Arg& index) {
  const auto axis = static_cast<int>(p.axis);
  const bool scalar = table.rank() == 0;  // counts as one of shape [1]
  return index_reader({op, p.axis, scalar ? 1 : table.shape[axis], p.wrap}, index,
                      scalar ? 0 : table.strides[axis], c.encoder->fault());
}

template <class Plan>
struct State : KernelState {
  explicit State(const Plan& p) : plan(p) {}
  Plan plan;
};

template <auto how>
std::shared_ptr<State<ReadPlan>> prepare_read(const GatherParams& p, const Specs& s) {
  return std::make_shared<State<ReadPlan>>(
      ReadPlan(how(p.axis, s.out[0], s.in[0], s.in[1]), s.out[0], s.in[0]));
}

const char* gather_name(const GatherParams& p) { return p.wrap ? "take_along_axis" : "gather"; }
const char* select_name(const GatherParams&) { return "index_select"; }

template <auto name>
void run_read(const GatherParams& p, const State<ReadPlan>& s, const Call& c) {
  s.plan.run(*c.encoder, reader(name(p), p, c, *c.in[0].spec, c.in[1]), c.in[0].data,
             c.out[0].data);
}

template <auto how, class Plan>
std::shared_ptr<State<Plan>> prepare_table(const ScatterParams& p, const Specs& s) {
  const Plan plan(how(p.axis, s.in[2], s.out[0], s.in[1]), s.in[0], s.out[0]);
  auto state = std::make_shared<State<Plan>>(plan);
  if constexpr (!std::is_same_v<Plan, OrderedAddPlan>)
    state->workspace_bytes = plan.workspace_bytes();
  return state;
}

struct Scatter {
  static constexpr const char* kName = "scatter";
};
struct ScatterAdd {
  static constexpr const char* kName = "scatter_add";
};
struct IndexAdd {
  static constexpr const char* kName = "index_add";
};

template <class Op, class Plan>
void run_table(const ScatterParams& p, const State<Plan>& s, const Call& c) {
  const IndexReader index = reader(Op::kName, p, c, *c.out[0].spec, c.in[1]);
  if constexpr (std::is_same_v<Plan, OrderedAddPlan>) {
    s.plan.run(*c.encoder, index, c.in[0], c.in[2], c.out[0]);
  } else {
    s.plan.run(*c.encoder, index, c.in[0], c.in[2], c.out[0], c.workspace);
  }
}

Support supports_atomic(const ScatterParams&, const Specs& s) {
  return supports_atomic_add(s.out[0]);
}
Support supports_ordered(const ScatterParams&, const Specs& s) {
  return supports_ordered_add(s.out[0]);
}

template <class Op, auto how>
KernelList add_kernels() {
  KernelList list = {
      kernel<supports_atomic, prepare_table<how, AddPlan>, run_table<Op, AddPlan>>("atomic"),
      kernel<supports_ordered, prepare_table<how, OrderedAddPlan>, run_table<Op, OrderedAddPlan>>(
          "ordered")};
  for (Kernel& k : list) k.takes_complex = true;
  return list;
}

}  // namespace

KernelList gather_cuda_kernels() {
  return {kernel<supports_all<GatherParams>, prepare_read<along_axis>, run_read<gather_name>>(
      "strided")};
}
KernelList index_select_cuda_kernels() {
  return {
      kernel<supports_all<GatherParams>, prepare_read<slices>, run_read<select_name>>("strided")};
}
KernelList scatter_cuda_kernels() {
  return {kernel<supports_all<ScatterParams>, prepare_table<along_axis, WritePlan>,
                 run_table<Scatter, WritePlan>>("last_wins")};
}
KernelList scatter_add_cuda_kernels() { return add_kernels<ScatterAdd, along_axis>(); }
KernelList index_add_cuda_kernels() { return add_kernels<IndexAdd, slices>(); }

}  // namespace mica

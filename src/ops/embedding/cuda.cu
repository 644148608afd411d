#include "mica/ops/embedding/cuda_buckets.h"
#include "mica/ops/embedding/embedding.h"
#include "mica/ops/gather/cuda_indexed.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

template <class Plan>
struct State : KernelState {
  explicit State(const Plan& p) : plan(p) {}
  Plan plan;
};

/// dense (index…, dim), table (rows, dim).
Indexed rows_of(const TensorSpec& dense, const TensorSpec& table, const TensorSpec& index) {
  Indexed how{dense.shape,      dense.strides,     index.strides, Dims::filled(index.rank(), 0),
              table.strides[0], {-1, index.rank()}};
  how.index.push_back(0);
  how.table.push_back(table.strides[1]);
  return how;
}

std::shared_ptr<State<ReadPlan>> prepare(const EmbeddingParams&, const Specs& s) {
  return std::make_shared<State<ReadPlan>>(
      ReadPlan(rows_of(s.out[0], s.in[1], s.in[0]), s.out[0], s.in[1]));
}

void run(const EmbeddingParams&, const State<ReadPlan>& state, const Call& c) {
  const Arg& weight = c.in[1];
  const IndexReader index = index_reader({"embedding", 0, weight.shape()[0]}, c.in[0],
                                         weight.strides()[0], c.encoder->fault());
  state.plan.run(*c.encoder, index, weight.data, c.out[0].data);
}

const TensorSpec kNothing;  ///< the sums start at zero

template <class Plan>
std::shared_ptr<State<Plan>> prepare_grad(const EmbeddingGradParams&, const Specs& s) {
  const Plan plan(rows_of(s.in[1], s.out[0], s.in[0]), kNothing, s.out[0]);
  auto state = std::make_shared<State<Plan>>(plan);
  if constexpr (std::is_same_v<Plan, AddPlan>) state->workspace_bytes = plan.workspace_bytes();
  return state;
}

template <class Plan>
void run_grad(const EmbeddingGradParams& p, const State<Plan>& state, const Call& c) {
  const Arg& out = c.out[0];
  IndexReader index =
      index_reader({"embedding_grad", 0, p.rows}, c.in[0], out.strides()[0], c.encoder->fault());
  index.skipped = p.padding;
  const Arg zero{nullptr, &kNothing};
  if constexpr (std::is_same_v<Plan, AddPlan>) {
    state.plan.run(*c.encoder, index, zero, c.in[1], out, c.workspace);
  } else {
    state.plan.run(*c.encoder, index, zero, c.in[1], out);
  }
}

Support supports_atomic(const EmbeddingGradParams&, const Specs& s) {
  return supports_atomic_add(s.out[0]);
}
Support supports_ordered(const EmbeddingGradParams&, const Specs& s) {
  return supports_ordered_add(s.out[0]);
}

/// Operands of the loop: out, index, class.
__global__ void __launch_bounds__(kIndexThreads)
    compare_classes(const __grid_constant__ StridedLoop<3> loop, TableAxis axis, int64_t* out,
                    const void* index, DType dtype, Fault* fault) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kIndexThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x; i < loop.count;
       i += step) {
    int64_t at[3];
    loop.offsets(i, at);
    out[at[0]] = place_of(axis, load_index(index, dtype, at[1]), fault) == at[2] ? 1 : 0;
  }
}

struct OneHotState : KernelState {
  StridedLoop<3> loop;
};

std::shared_ptr<OneHotState> prepare_one_hot(const OneHotParams&, const Specs& s) {
  auto state = std::make_shared<OneHotState>();
  const int rank = s.in[0].rank();
  Strides index = s.in[0].strides;
  Strides classes = Dims::filled(rank, 0);
  index.push_back(0);
  classes.push_back(1);
  state->loop = strided_loop<3>(s.out[0].shape, {s.out[0].strides, index, classes});
  return state;
}

void run_one_hot(const OneHotParams& p, const OneHotState& state, const Call& c) {
  const TableAxis axis{"one_hot", c.in[0].shape().rank(), p.classes};
  c.encoder->launch(compare_classes,
                    grid_for(state.loop.count, kIndexThreads, c.encoder->multiprocessors()),
                    kIndexThreads, 0, state.loop, axis, c.out[0].as<int64_t>(), c.in[0].data,
                    c.in[0].dtype(), c.encoder->fault());
}

}  // namespace

KernelList embedding_cuda_kernels() {
  return {kernel<supports_all<EmbeddingParams>, prepare, run>("strided")};
}
KernelList embedding_grad_cuda_kernels() {
  return {
      embedding_grad_buckets_kernel(),
      kernel<supports_atomic, prepare_grad<AddPlan>, run_grad<AddPlan>>("atomic"),
      kernel<supports_ordered, prepare_grad<OrderedAddPlan>, run_grad<OrderedAddPlan>>("ordered")};
}
KernelList one_hot_cuda_kernels() {
  return {kernel<supports_all<OneHotParams>, prepare_one_hot, run_one_hot>("compared")};
}

}  // namespace mica

#include <limits>
#include <numeric>

#include "mica/ops/gather/cuda_indexed.cuh"
#include "mica/ops/index/index.h"
#include "mica/ops/index/placement.h"

namespace mica {
namespace {

using namespace mica::cuda;

/// The indices of several axes, which are made one first: an offset for each position, -1 where one
/// of them lies outside.
struct AxisIndices {
  struct One {
    const void* data;
    DType dtype;
    TableAxis axis;
    int64_t scale;
  };
  One of[Dims::kMaxRank];
  int count;
};
using OffsetLoop = StridedLoop<1 + Dims::kMaxRank>;  ///< row-major position, then the indices

__global__ void __launch_bounds__(kIndexThreads)
    make_offsets(const __grid_constant__ OffsetLoop loop,
                 const __grid_constant__ AxisIndices indices, int64_t* offsets, Fault* fault) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kIndexThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x; i < loop.count;
       i += step) {
    int64_t at[1 + Dims::kMaxRank];
    loop.offsets(i, at);
    int64_t offset = 0;
    bool inside = true;
#pragma unroll
    for (int k = 0; k < Dims::kMaxRank; ++k) {
      if (k >= indices.count) break;
      const AxisIndices::One& one = indices.of[k];
      const int64_t place = place_of(one.axis, load_index(one.data, one.dtype, at[1 + k]), fault);
      inside = inside && place >= 0;
      offset += place * one.scale;
    }
    offsets[at[0]] = inside ? offset : -1;
  }
}

/// How the indices of a call meet the table, and where its offsets are made.
struct Indexing {
  Indexing(const char* name, const Dims& indexed, const TensorSpec& table, const TensorSpec& dense,
           std::span<const TensorSpec> indices);
  /// A single index is read where it lies.
  bool direct() const { return axes.rank() == 1; }
  size_t workspace_bytes() const {
    return direct() ? 0 : static_cast<size_t>(offsets.count) * sizeof(int64_t);
  }
  IndexReader reader(Encoder& encoder, const TensorSpec& table, std::span<const Arg> indices,
                     void* workspace) const;

  const char* op;
  Dims axes;
  Indexed how;
  OffsetLoop offsets;
};

Indexing::Indexing(const char* name, const Dims& indexed, const TensorSpec& table,
                   const TensorSpec& dense, std::span<const TensorSpec> indices)
    : op(name), axes(indexed) {
  const Placement p = place_indices(op, table.shape, axes, indices);
  // Offsets count in what all the indexed axes' strides are multiples of, so that rows stay rows.
  int64_t scale = 0;
  for (const int64_t axis : axes) scale = std::gcd(scale, table.strides[static_cast<int>(axis)]);
  if (!direct()) scale = std::max<int64_t>(scale, 1);
  how = {dense.shape, dense.strides, {}, {}, scale, Dims::filled(table.rank(), -1)};
  const auto add_axes = [&](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      if (axes.contains(i)) continue;
      how.dense_axes[i] = how.index.rank();
      how.index.push_back(0);
      how.table.push_back(table.strides[i]);
    }
  };
  add_axes(0, p.at);
  const Strides own = direct() ? broadcast_strides(indices[0].shape, indices[0].strides, p.indices)
                               : contiguous_strides(p.indices);
  for (const int64_t stride : own) {
    how.index.push_back(stride);
    how.table.push_back(0);
  }
  add_axes(p.at, table.rank());

  std::array<Strides, 1 + Dims::kMaxRank> strides;
  strides.fill(Dims::filled(p.indices.rank(), 0));
  strides[0] = contiguous_strides(p.indices);
  for (size_t k = 0; k < indices.size(); ++k)
    strides[1 + k] = broadcast_strides(indices[k].shape, indices[k].strides, p.indices);
  offsets = strided_loop<1 + Dims::kMaxRank>(p.indices, strides);
}

IndexReader Indexing::reader(Encoder& encoder, const TensorSpec& table,
                             std::span<const Arg> indices, void* workspace) const {
  const auto axis_of = [&](int k) {
    const auto axis = static_cast<int>(axes[k]);
    return TableAxis{op, axis, table.shape[axis], true};
  };
  if (direct())
    return index_reader(axis_of(0), indices[0], table.strides[static_cast<int>(axes[0])],
                        encoder.fault());
  AxisIndices all{.of = {}, .count = axes.rank()};
  for (int k = 0; k < axes.rank(); ++k) {
    const Arg& index = indices[static_cast<size_t>(k)];
    all.of[k] = {index.data, index.dtype(), axis_of(k),
                 table.strides[static_cast<int>(axes[k])] / how.scale};
  }
  auto* made = static_cast<int64_t*>(workspace);
  encoder.launch(make_offsets, grid_for(offsets.count, kIndexThreads, encoder.multiprocessors()),
                 kIndexThreads, 0, offsets, all, made, encoder.fault());
  const TableAxis anywhere{op, 0, std::numeric_limits<int64_t>::max()};
  return {made, DType::i64, anywhere, how.scale};
}

template <class Plan>
struct State : KernelState {
  State(const Indexing& i, const Plan& p) : indexing(i), plan(p) {}
  Indexing indexing;
  Plan plan;
};

std::shared_ptr<State<ReadPlan>> prepare(const IndexParams& p, const Specs& s) {
  const Indexing indexing("index", p.axes, s.in[0], s.out[0], s.in.subspan(1));
  auto state =
      std::make_shared<State<ReadPlan>>(indexing, ReadPlan(indexing.how, s.out[0], s.in[0]));
  state->workspace_bytes = indexing.workspace_bytes();
  return state;
}

void run(const IndexParams&, const State<ReadPlan>& state, const Call& c) {
  const IndexReader index =
      state.indexing.reader(*c.encoder, *c.in[0].spec, c.in.subspan(1), c.workspace);
  state.plan.run(*c.encoder, index, c.in[0].data, c.out[0].data);
}

// Inputs: x or nothing, values, indices.
template <class Plan>
std::shared_ptr<State<Plan>> prepare_put(const IndexPutParams& p, const Specs& s) {
  const Indexing indexing("index_put", p.axes, s.out[0], s.in[1], s.in.subspan(2));
  const Plan plan(indexing.how, s.in[0], s.out[0]);
  auto state = std::make_shared<State<Plan>>(indexing, plan);
  state->workspace_bytes = indexing.workspace_bytes();
  if constexpr (!std::is_same_v<Plan, OrderedAddPlan>)
    state->workspace_bytes += plan.workspace_bytes();
  return state;
}

template <class Plan>
void run_put(const IndexPutParams&, const State<Plan>& state, const Call& c) {
  const IndexReader index =
      state.indexing.reader(*c.encoder, *c.out[0].spec, c.in.subspan(2), c.workspace);
  if constexpr (std::is_same_v<Plan, OrderedAddPlan>) {
    state.plan.run(*c.encoder, index, c.in[0], c.in[1], c.out[0]);
  } else {
    auto* rest = static_cast<std::byte*>(c.workspace) + state.indexing.workspace_bytes();
    state.plan.run(*c.encoder, index, c.in[0], c.in[1], c.out[0], rest);
  }
}

Support supports_write(const IndexPutParams& p, const Specs&) {
  return p.accumulate ? Support::no("values are to be added") : Support::yes();
}
Support supports_atomic(const IndexPutParams& p, const Specs& s) {
  return p.accumulate ? supports_atomic_add(s.out[0]) : Support::no("values are to be written");
}
Support supports_ordered(const IndexPutParams& p, const Specs& s) {
  return p.accumulate ? supports_ordered_add(s.out[0]) : Support::no("values are to be written");
}

}  // namespace

KernelList index_cuda_kernels() {
  return {kernel<supports_all<IndexParams>, prepare, run>("strided")};
}
KernelList index_put_cuda_kernels() {
  KernelList list = {
      kernel<supports_write, prepare_put<WritePlan>, run_put<WritePlan>>("last_wins"),
      kernel<supports_atomic, prepare_put<AddPlan>, run_put<AddPlan>>("atomic"),
      kernel<supports_ordered, prepare_put<OrderedAddPlan>, run_put<OrderedAddPlan>>("ordered")};
  for (Kernel& k : list) k.takes_complex = true;
  return list;
}

}  // namespace mica

#include "mica/core/switch_bytes.h"
#include "mica/ops/gather/cuda_indexed.cuh"

// Writing to a table. Every element of the table knows the last element that is to be written to
// it: one more than its place in row-major order, 0 for none.
namespace mica::cuda {
namespace {

constexpr int64_t kMost32 = int64_t{1} << 31;

template <class Order>
__global__ void __launch_bounds__(kIndexThreads)
    find_last(const __grid_constant__ StridedLoop<4> loop,
              const __grid_constant__ IndexReader index, Order* last) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kIndexThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x; i < loop.count;
       i += step) {
    int64_t at[4];
    loop.offsets(i, at);
    const int64_t offset = index.offset(at[2]);
    const int64_t order = at[3] + 1;
    if (offset >= 0) atomicMax(last + at[1] + offset, static_cast<Order>(order));
  }
}

template <class Word, class Order>
__global__ void __launch_bounds__(kIndexThreads)
    write_last(const __grid_constant__ StridedLoop<4> loop,
               const __grid_constant__ IndexReader index, const Word* dense, const Order* last,
               Word* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kIndexThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x; i < loop.count;
       i += step) {
    int64_t at[4];
    loop.offsets(i, at);
    const int64_t offset = index.offset(at[2]);
    if (offset < 0) continue;
    const int64_t to = at[1] + offset;
    const int64_t order = at[3] + 1;
    if (last[to] == static_cast<Order>(order)) out[to] = dense[at[0]];
  }
}

template <class Word>
__global__ void __launch_bounds__(kIndexThreads)
    write_each(const __grid_constant__ StridedLoop<4> loop,
               const __grid_constant__ IndexReader index, const Word* dense, Word* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kIndexThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x; i < loop.count;
       i += step) {
    int64_t at[4];
    loop.offsets(i, at);
    const int64_t offset = index.offset(at[2]);
    if (offset >= 0) out[at[1] + offset] = dense[at[0]];
  }
}

/// Whether two elements may be written to one place: on an axis of the index there are several.
bool may_meet(const Indexed& how) {
  for (int i = 0; i < how.shape.rank(); ++i)
    if (how.table[i] == 0 && how.shape[i] > 1) return true;
  return false;
}

template <class Word, class Order>
void launch(const WritePlan& p, Encoder& encoder, const IndexReader& index, const Arg& x,
            const Arg& dense, const Arg& out, void* workspace) {
  auto* last = static_cast<Order*>(workspace);
  const unsigned grid = grid_for(p.loop.count, kIndexThreads, encoder.multiprocessors());
  p.start.run(encoder, x, out);
  if (!p.meet) {
    encoder.launch(write_each<Word>, grid, kIndexThreads, 0, p.loop, index, dense.as<const Word>(),
                   out.as<Word>());
    return;
  }
  clear_memory(encoder, last, p.workspace_bytes());
  encoder.launch(find_last<Order>, grid, kIndexThreads, 0, p.loop, index, last);
  encoder.launch(write_last<Word, Order>, grid, kIndexThreads, 0, p.loop, index,
                 dense.as<const Word>(), last, out.as<Word>());
}

}  // namespace

TableStart::TableStart(const TensorSpec& x, const TensorSpec& out)
    : copy(out, x.defined ? x : out),
      bytes(static_cast<size_t>(out.numel()) * size_of(out.dtype)) {}

void TableStart::run(Encoder& encoder, const Arg& x, const Arg& out) const {
  if (x.defined() && x.data == out.data) return;  // it is written over x
  if (x.defined()) {
    copy.run(encoder, out.data, x.data);
  } else {
    clear_memory(encoder, out.data, bytes);
  }
}

WritePlan::WritePlan(const Indexed& how, const TensorSpec& x, const TensorSpec& out)
    : start(x, out),
      loop(strided_loop<4>(how.shape,
                           {how.dense, how.table, how.index, contiguous_strides(how.shape)})),
      elements(out.numel()),
      meet(may_meet(how)) {}

size_t WritePlan::workspace_bytes() const {
  if (!meet) return 0;
  return static_cast<size_t>(elements) * (loop.count < kMost32 ? 4 : 8);
}

void WritePlan::run(Encoder& encoder, const IndexReader& index, const Arg& x, const Arg& dense,
                    const Arg& out, void* workspace) const {
  const auto with_word = [&]<class Word>() {
    if (loop.count < kMost32) {
      launch<Word, uint32_t>(*this, encoder, index, x, dense, out, workspace);
    } else {
      launch<Word, unsigned long long>(*this, encoder, index, x, dense, out, workspace);
    }
  };
  switch_words(size_of(out.dtype()), with_word);
}

}  // namespace mica::cuda

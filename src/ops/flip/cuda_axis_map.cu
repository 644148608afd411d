#include <cstring>

#include "mica/core/switch_bytes.h"
#include "mica/ops/flip/cuda_axis_map.h"

#include <algorithm>
#include <numeric>

#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica::cuda {
namespace {

constexpr int kThreads = 256;

/// The run of an axis that an index lies in.
struct Run {
  int64_t end;
  int64_t first;
  int64_t step;
  bool constant;
};
__device__ Run run_at(const MappedAxis& a, int64_t i) {
  if (i < a.begin[1]) return {a.begin[1], a.first[0], a.step[0], (a.constant & 1U) != 0};
  if (i < a.begin[2]) return {a.begin[2], a.first[1], a.step[1], (a.constant & 2U) != 0};
  return {a.size, a.first[2], a.step[2], (a.constant & 4U) != 0};
}

/// A place in the output: the index along the innermost axis, and what the others say.
struct Place {
  int64_t i;
  int64_t offset;
  bool constant;
};
__device__ Place place_at(const MappedLoop& loop, int64_t index) {
  Place place{0, loop.offset, loop.all_constant};
  const auto divide = [&](const MappedAxis& a, int64_t n) -> int64_t {
    return loop.narrow ? a.by_size.quotient(static_cast<uint32_t>(n)) : n / a.size;
  };
#pragma unroll
  for (int d = 0; d < Dims::kMaxRank; ++d) {
    if (d >= loop.rank) break;
    const MappedAxis& a = loop.axes[d];
    int64_t here = index;
    if (d + 1 < loop.rank) {
      index = divide(a, here);
      here -= index * a.size;
    }
    if (d == 0) {
      place.i = here;
      continue;
    }
    const Run run = run_at(a, here);
    place.offset += run.first + here * run.step;
    place.constant = place.constant || run.constant;
  }
  return place;
}

/// A thread writes 16 bytes, which may go over the end of the innermost axis.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    copy_mapped(const __grid_constant__ MappedLoop loop, Word* out, const Word* in, Word constant,
                bool aligned) {
  constexpr int V = kVec16<Word>;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * V;
  const MappedAxis& inner = loop.axes[0];
  for (int64_t base = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V;
       base < loop.count; base += step) {
    const bool whole = aligned && base + V <= loop.count;
    Place place = place_at(loop, base);
    Vec<Word, V> y;
    const Run run = run_at(inner, place.i);
    const Word* from = in + place.offset + run.first + place.i * run.step;
    const bool plain = whole && !place.constant && !run.constant && place.i + V <= run.end;
    if (plain && run.step == 1 && is_aligned(from, 16)) {
      y = load_vec<V>(from);
    } else if (plain && run.step == -1 && is_aligned(from - (V - 1), 16)) {
      const Vec<Word, V> x = load_vec<V>(from - (V - 1));
#pragma unroll
      for (int e = 0; e < V; ++e) y.v[e] = x.v[V - 1 - e];
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e) {
        if (base + e >= loop.count) break;
        if (place.i == inner.size) place = place_at(loop, base + e);
        const Run here = run_at(inner, place.i);
        y.v[e] = place.constant || here.constant
                     ? constant
                     : in[place.offset + here.first + place.i * here.step];
        ++place.i;
      }
    }
    if (whole) {
      store_vec<V>(out + base, y);
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (base + e < loop.count) out[base + e] = y.v[e];
    }
  }
}

/// An outer axis that goes forward over whole rows of this one is one axis with it.
bool joins(const AxisMap& outer, int64_t row) {
  return std::all_of(outer.begin(), outer.end(), [&](const AxisRun& run) {
    return run.constant || run.length == 1 || run.step == row;
  });
}

}  // namespace

MappedCopyState::MappedCopyState(const TensorSpec& out, const TensorSpec& in,
                                 std::span<const AxisMap> maps) {
  loop.count = out.numel();
  loop.narrow = loop.count < kNarrowLimit;
  if (loop.count == 0) return;
  int& rank = loop.rank;
  std::array<int, Dims::kMaxRank> order;
  std::iota(order.begin(), order.begin() + out.rank(), 0);
  std::stable_sort(order.begin(), order.begin() + out.rank(),
                   [&](int a, int b) { return out.strides[a] > out.strides[b]; });
  struct Sized {
    int64_t size;
    AxisMap map;
  };
  std::array<Sized, Dims::kMaxRank> kept;  // outermost first
  for (int k = 0; k < out.rank(); ++k) {
    const int i = order[static_cast<size_t>(k)];
    AxisMap map = maps[static_cast<size_t>(i)];
    const int64_t size = out.shape[i];
    const AxisRun only = map[0];
    const bool identity = map.runs() == 1 && only.first == 0 && only.step == 1 && !only.constant;
    for (AxisRun& run : map) {
      run.first *= in.strides[i];
      run.step *= in.strides[i];
    }
    if (size == 1) {
      loop.offset += map[0].first;
      loop.all_constant = loop.all_constant || map[0].constant;
      continue;
    }
    if (identity && rank > 0 &&
        joins(kept[static_cast<size_t>(rank - 1)].map, in.strides[i] * size)) {
      Sized& outer = kept[static_cast<size_t>(rank - 1)];
      for (AxisRun& run : outer.map) {
        run.length *= size;
        run.step = in.strides[i];
      }
      outer.size *= size;
      continue;
    }
    kept[static_cast<size_t>(rank++)] = {size, map};
  }
  for (int d = 0; d < rank; ++d) {
    const Sized& from = kept[static_cast<size_t>(rank - 1 - d)];
    MappedAxis& axis = loop.axes[d];
    axis.size = from.size;
    if (loop.narrow) axis.by_size = Divider(static_cast<uint32_t>(from.size));
    int64_t begin = 0;
    for (int r = 0; r < 3; ++r) {
      axis.begin[r] = begin;
      if (r >= from.map.runs()) continue;
      const AxisRun& run = from.map[r];
      axis.first[r] = run.first - begin * run.step;
      axis.step[r] = run.step;
      if (run.constant) axis.constant |= 1U << r;
      begin += run.length;
    }
  }
}

void MappedCopyState::run(const Call& c, const ElementWords& constant) const {
  const bool aligned = is_aligned(c.out[0].data, 16);
  const auto launch = [&]<class Word>() {
    Word value;
    std::memcpy(&value, constant.data(), sizeof value);
    const unsigned grid =
        grid_for(loop.count, int64_t{kThreads} * kVec16<Word>, c.encoder->multiprocessors());
    c.encoder->launch(copy_mapped<Word>, grid, kThreads, 0, loop, c.out[0].as<Word>(),
                      c.in[0].as<const Word>(), value, aligned);
  };
  switch_words(size_of(c.out[0].dtype()), launch);
}

}  // namespace mica::cuda

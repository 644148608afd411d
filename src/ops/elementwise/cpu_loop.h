#pragma once

#include <algorithm>
#include <array>
#include <numeric>

#include "mica/core/dtype_switch.h"
#include "mica/op/kernel.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {

inline constexpr int64_t kElementGrain = 32768;  ///< elements worth a thread of their own

/// How N operands of one shape lie in memory, with the axes in the order of operand 0's strides and
/// merged where all operands allow it: dense operands of any one layout become a single axis.
template <int N>
struct StridedLoop {
  int rank = 0;
  int64_t numel = 0;
  std::array<int64_t, Dims::kMaxRank> size{};
  std::array<std::array<int64_t, Dims::kMaxRank>, N> stride{};

  StridedLoop(const Shape& shape, const std::array<Strides, N>& strides)
      : numel(mica::numel(shape)) {
    std::array<int, Dims::kMaxRank> order;
    std::iota(order.begin(), order.begin() + shape.rank(), 0);
    std::stable_sort(order.begin(), order.begin() + shape.rank(),
                     [&](int a, int b) { return strides[0][a] > strides[0][b]; });
    for (int k = 0; k < shape.rank(); ++k) {
      const int axis = order[static_cast<size_t>(k)];
      if (shape[axis] == 1) continue;
      if (rank > 0 && merges(strides, axis, shape[axis])) {
        size[at(rank - 1)] *= shape[axis];
      } else {
        size[at(rank++)] = shape[axis];
      }
      for (size_t i = 0; i < N; ++i) stride[i][at(rank - 1)] = strides[i][axis];
    }
    if (rank == 0) {
      rank = 1;
      size[0] = 1;
      for (size_t i = 0; i < N; ++i) stride[i][0] = 1;
    }
  }

  int64_t inner() const { return size[at(rank - 1)]; }
  int64_t inner_stride(int operand) const { return stride[at(operand)][at(rank - 1)]; }

  /// Calls `f(offsets, n)` for runs along the innermost axis, in parallel.
  template <class F>
  void each_run(F&& f) const {
    if (numel == 0) return;
    const int64_t n = inner();
    const int64_t outer = numel / n;
    if (outer == 1) {
      parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) {
        std::array<int64_t, N> offsets;
        for (int i = 0; i < N; ++i) offsets[at(i)] = begin * inner_stride(i);
        f(offsets, end - begin);
      });
      return;
    }
    parallel_for(outer, std::max<int64_t>(1, kElementGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t run = begin; run < end; ++run) {
        std::array<int64_t, N> offsets{};
        int64_t rest = run;
        for (int axis = rank - 2; axis >= 0; --axis) {
          const int64_t i = rest % size[at(axis)];
          rest /= size[at(axis)];
          for (size_t k = 0; k < N; ++k) offsets[k] += i * stride[k][at(axis)];
        }
        f(offsets, n);
      }
    });
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }
  bool merges(const std::array<Strides, N>& strides, int axis, int64_t length) const {
    for (size_t i = 0; i < N; ++i)
      if (stride[i][at(rank - 1)] != strides[i][axis] * length) return false;
    return true;
  }
};

/// Strides of `spec` seen as a tensor of `shape`, to which it broadcasts: repeated axes have stride
/// 0.
inline Strides broadcast_strides(const TensorSpec& spec, const Shape& shape) {
  Strides strides = Dims::filled(shape.rank(), 0);
  const int shift = shape.rank() - spec.rank();
  for (int i = 0; i < spec.rank(); ++i)
    if (spec.shape[i] != 1) strides[i + shift] = spec.strides[i];
  return strides;
}

namespace elementwise {
enum class Store;  // apply.h
}

/// What a kernel brings that computes each element from the operands' alone.
struct ElementState : KernelState {
  /// The kernel for n elements of dense operands, without its loops; null where the elements are
  /// not of the type it computes in.
  void (*dense)(const void* params, const void* const* in, int64_t n, void* out,
                elementwise::Store store) = nullptr;
};

template <int N>
struct LoopState : ElementState {
  explicit LoopState(const StridedLoop<N>& l) : loop(l) {}
  StridedLoop<N> loop;
};

}  // namespace mica

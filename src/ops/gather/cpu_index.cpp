#include <atomic>
#include <utility>

#include "mica/core/check.h"
#include "mica/ops/gather/cpu_indexed.h"
#include "mica/ops/gather/cpu_walk.h"

// The indices themselves: checked before anything is written, and as i64.
namespace mica {
namespace {

/// An index past int64 is outside of every axis.
template <class I>
int64_t as_index(I value) {
  return std::in_range<int64_t>(value) ? static_cast<int64_t>(value) : INT64_MIN;
}

template <class F>
void switch_index(DType t, F&& f) {
  switch_integers(t, "index", [&]<class I>() {
    if constexpr (!std::is_same_v<I, bool>) f.template operator()<I>();
  });
}

/// The shape of a tensor's own elements: axes it is expanded along count once.
Shape own_shape(const TensorSpec& s) {
  Shape shape = s.shape;
  for (int i = 0; i < s.rank(); ++i)
    if (s.strides[i] == 0) shape[i] = std::min<int64_t>(shape[i], 1);
  return shape;
}

template <class I>
[[noreturn]] void fail_first(const IndexedAxis& a, const Arg& index, int64_t low) {
  const Shape shape = own_shape(*index.spec);
  Dims at = Dims::filled(shape.rank(), 0);
  while (true) {
    int64_t offset = 0;
    for (int i = 0; i < shape.rank(); ++i) offset += at[i] * index.strides()[i];
    const I found = index.as<I>()[offset];
    const int64_t k = as_index(found);
    if (k < low || k >= a.size)
      fail<IndexError>("{}: index {} at {} is out of range for axis {} of size {}", a.op, found, at,
                       a.axis, a.size);
    for (int i = shape.rank() - 1; i >= 0 && ++at[i] == shape[i]; --i) at[i] = 0;
  }
}

}  // namespace

void check_index_dtype(const char* op, const TensorSpec& index) {
  check<DTypeError>(kIntegerDTypes.contains(index.dtype),
                    "{}: index must be an integer dtype, got {}", op, index.dtype);
}

void check_index(const IndexedAxis& a, const Arg& index) {
  const Shape shape = own_shape(*index.spec);
  const StridedLoop<1> loop(shape, {index.strides()});
  const int64_t low = a.wrap ? -a.size : 0;
  const auto range = static_cast<uint64_t>(a.size - low);
  const int64_t step = loop.inner_stride(0);
  std::atomic<bool> outside = false;
  switch_index(index.dtype(), [&]<class I>() {
    walk_parallel(loop, kElementGrain, kLine<I>, [&](const std::array<int64_t, 1>& at, int64_t n) {
      const I* k = index.as<I>() + at[0];
      const auto is_outside = [&](I value) {
        return static_cast<uint64_t>(as_index(value)) - static_cast<uint64_t>(low) >= range;
      };
      bool any = false;
      if (step == 1) {
        for (int64_t i = 0; i < n; ++i) any |= is_outside(k[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) any |= is_outside(k[i * step]);
      }
      if (any) outside = true;
    });
    if (outside) fail_first<I>(a, index, low);
  });
}

size_t index_workspace(const TensorSpec& index) {
  return index.dtype == DType::i64 ? 0
                                   : static_cast<size_t>(numel(own_shape(index))) * sizeof(int64_t);
}

Indices checked_index(const IndexedAxis& a, const Arg& index, void* workspace) {
  check_index(a, index);
  if (index.dtype() == DType::i64) return {index.as<int64_t>(), index.strides()};
  TensorSpec own = *index.spec;
  own.shape = own_shape(own);
  auto* data = static_cast<int64_t*>(workspace);
  index_offsets(a, {index.data, &own}, own.shape, 1, false, data);
  Strides strides = contiguous_strides(own.shape);
  for (int i = 0; i < own.rank(); ++i)
    if (index.strides()[i] == 0) strides[i] = 0;
  return {data, strides};
}

void index_offsets(const IndexedAxis& a, const Arg& index, const Shape& shape, int64_t scale,
                   bool add, int64_t* offsets) {
  const StridedLoop<2> loop(shape,
                            {contiguous_strides(shape), broadcast_strides(*index.spec, shape)});
  const int64_t step = loop.inner_stride(1);
  switch_index(index.dtype(), [&]<class I>() {
    walk_parallel(
        loop, kElementGrain, kLine<int64_t>, [&](const std::array<int64_t, 2>& at, int64_t n) {
          const I* k = index.as<I>() + at[1];
          int64_t* to = offsets + at[0];
          for (int64_t i = 0; i < n; ++i) {
            const int64_t offset = scale * wrapped(static_cast<int64_t>(k[i * step]), a.size);
            to[i] = add ? to[i] + offset : offset;
          }
        });
  });
}

}  // namespace mica

#pragma once

#include "mica/ops/elementwise/cpu_loop.h"

namespace mica::reduction {

/// Element i of any dtype as a double, an int64_t or a uint64_t.
template <class Wide>
using Read = Wide (*)(const void* data, int64_t i);
template <class Wide>
Read<Wide> reader(DType t) {
  return switch_computed(t, "reference", []<class T>() -> Read<Wide> {
    return [](const void* data, int64_t i) {
      return static_cast<Wide>(static_cast<Compute<T>>(static_cast<const T*>(data)[i]));
    };
  });
}
template <class Wide>
using Write = void (*)(void* data, int64_t i, Wide value);
template <class Wide>
Write<Wide> writer(DType t) {
  return switch_computed(t, "reference", []<class T>() -> Write<Wide> {
    return
        [](void* data, int64_t i, Wide value) { static_cast<T*>(data)[i] = static_cast<T>(value); };
  });
}

/// The elements of one result, in logical order.
template <class Wide>
class Elements {
 public:
  Elements(const Arg& in, const Dims& axes, int64_t result)
      : in_(in), axes_(axes), read_(reader<Wide>(in.dtype())) {
    for (int axis = in.shape().rank() - 1; axis >= 0; --axis) {
      if (axes.contains(axis)) {
        count_ *= in.shape()[axis];
      } else {
        base_ += result % in.shape()[axis] * in.strides()[axis];
        result /= in.shape()[axis];
      }
    }
  }
  int64_t size() const { return count_; }
  Wide operator[](int64_t i) const {
    int64_t at = base_;
    for (int k = axes_.rank() - 1; k >= 0; --k) {
      const auto axis = static_cast<int>(axes_[k]);
      at += i % in_.shape()[axis] * in_.strides()[axis];
      i /= in_.shape()[axis];
    }
    return read_(in_.data, at);
  }

 private:
  const Arg& in_;
  const Dims& axes_;
  Read<Wide> read_;
  int64_t base_ = 0;
  int64_t count_ = 1;
};

/// Writes `f(elements)` for every result of a reduction to the row-major output.
template <class Wide, class F>
void reduce_reference(const Dims& axes, const Call& c, F&& f) {
  using Result = decltype(f(std::declval<const Elements<Wide>&>()));
  const Write<Result> write = writer<Result>(c.out[0].dtype());
  for (int64_t o = 0; o < c.out[0].numel(); ++o)
    write(c.out[0].data, o, f(Elements<Wide>(c.in[0], axes, o)));
}

/// The same with doubles for floating inputs and with 64-bit integers for the others.
template <class F>
void reduce_reference_any(const Dims& axes, const Call& c, F&& f) {
  if (is_floating(c.in[0].dtype())) {
    reduce_reference<double>(axes, c, f);
  } else if (c.in[0].dtype() == DType::u64) {
    reduce_reference<uint64_t>(axes, c, f);
  } else {
    reduce_reference<int64_t>(axes, c, f);
  }
}

}  // namespace mica::reduction

#include "mica/ops/reduce/cpu_engine.h"

#include "mica/runtime/cpu/convert.h"

namespace mica::reduction {
namespace {

template <class Value>
const Value* as_they_are(const void* data, int64_t offset, int64_t step, int64_t n, Value* buffer) {
  const Value* x = static_cast<const Value*>(data) + offset;
  if (step == 1) return x;
  for (int64_t i = 0; i < n; ++i) buffer[i] = x[i * step];
  return buffer;
}

template <class T, class Value>
const Value* widened(const void* data, int64_t offset, int64_t step, int64_t n, Value* buffer) {
  const T* x = static_cast<const T*>(data) + offset;
  if constexpr (std::is_same_v<Value, float>) {
    load_run(x, step, n, buffer);
  } else {
    for (int64_t i = 0; i < n; ++i) buffer[i] = x[i * step];
  }
  return buffer;
}

}  // namespace

template <class Value>
Load<Value> loader(DType t) {
  if constexpr (std::is_same_v<Value, float>) {
    if (t == DType::f16) return widened<Half, Value>;
    if (t == DType::bf16) return widened<BFloat16, Value>;
  } else if constexpr (std::is_same_v<Value, int64_t>) {
    if (t == DType::u32) return widened<uint32_t, Value>;
  } else if constexpr (std::is_same_v<Value, int32_t>) {
    if (t == DType::i16) return widened<int16_t, Value>;
    if (t == DType::u16) return widened<uint16_t, Value>;
    if (t == DType::i8) return widened<int8_t, Value>;
  }
  check(size_of(t) == sizeof(Value), "reduction: {} has no loader", t);
  return as_they_are<Value>;
}

template Load<double> loader<double>(DType);
template Load<float> loader<float>(DType);
template Load<int64_t> loader<int64_t>(DType);
template Load<int32_t> loader<int32_t>(DType);
template Load<uint64_t> loader<uint64_t>(DType);
template Load<uint32_t> loader<uint32_t>(DType);
template Load<uint16_t> loader<uint16_t>(DType);
template Load<uint8_t> loader<uint8_t>(DType);

namespace {

StridedLoop<2> kept_loop(const TensorSpec& in, const TensorSpec& out, const Dims& axes) {
  Shape shape;
  Strides in_strides;
  Strides out_strides;
  const bool keepdim = out.rank() == in.rank();
  for (int i = 0, o = 0; i < in.rank(); ++i) {
    const bool gone = axes.contains(i);
    if (!gone) {
      shape.push_back(in.shape[i]);
      in_strides.push_back(in.strides[i]);
      out_strides.push_back(out.strides[o]);
    }
    o += !gone || keepdim ? 1 : 0;
  }
  return {shape, {in_strides, out_strides}};
}

StridedLoop<1> reduced_loop(const TensorSpec& in, const Dims& axes) {
  Shape shape;
  Strides strides;
  for (const int64_t axis : axes) {
    shape.push_back(in.shape[static_cast<int>(axis)]);
    strides.push_back(in.strides[static_cast<int>(axis)]);
  }
  return {shape, {strides}};
}

}  // namespace

Plan::Plan(const TensorSpec& in, const TensorSpec& out, const Dims& axes, size_t acc_bytes)
    : kept(kept_loop(in, out, axes)), reduced(reduced_loop(in, axes)) {
  if (kept.numel == 0 || reduced.numel == 0) return;
  const bool run = reduced.inner_stride(0) == 1 && reduced.inner() > 1;
  across = !run && kept.inner_stride(0) == 1 && kept.inner() > 1;
  const int64_t units = across ? kept.numel / width() * tiles() : kept.numel;
  const int64_t work = reduced.numel * (across ? std::min(width(), kColumns) : 1);
  pieces = std::min({kPieces / units, work / kElementGrain, reduced.numel});
  pieces = std::max({pieces, int64_t{1}, reduced.numel >> 30});
  if (pieces > 1) workspace_bytes = static_cast<size_t>(kept.numel * pieces) * acc_bytes;
}

}  // namespace mica::reduction

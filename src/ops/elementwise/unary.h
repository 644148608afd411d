#pragma once

#include "mica/op/op_def.h"
#include "mica/ops/elementwise/cpu_loop.h"

namespace mica {

/// Whether a unary op takes integers too.
enum class Takes { floats, numbers };

namespace unary {

template <Takes takes>
void infer_as(const char* op, std::span<const TensorSpec> in, OutSpecs& out) {
  const DType t = in[0].dtype;
  if constexpr (takes == Takes::floats) {
    check<DTypeError>(is_floating(t), "{}: expected a floating dtype, got {}", op, t);
  } else {
    check<DTypeError>(t != DType::boolean, "{}: expected numbers, got bool", op);
  }
  out.add(in[0].shape, t);
}

inline std::shared_ptr<LoopState<2>> prepare(const NoParams&, const Specs& s) {
  return std::make_shared<LoopState<2>>(
      StridedLoop<2>(s.out[0].shape, {s.out[0].strides, s.in[0].strides}));
}

/// Calls f with the C++ type of a dtype the op takes.
template <Takes takes, class F>
void with_type(DType t, F&& f) {
  if constexpr (takes == Takes::floats) {
    switch_float(t, "elementwise", f);
  } else {
    switch_all(t, f);
  }
}

/// In the type's own precision (f16 and bf16 in float), vectorised where both sides are dense.
template <class Functor, Takes takes>
void run_vectorized(const NoParams&, const LoopState<2>& state, const Call& c) {
  with_type<takes>(c.out[0].dtype(), [&]<class T>() {
    T* out = c.out[0].as<T>();
    const T* in = c.in[0].as<T>();
    const int64_t so = state.loop.inner_stride(0);
    const int64_t si = state.loop.inner_stride(1);
    const Functor f;
    state.loop.each_run([&](const std::array<int64_t, 2>& at, int64_t n) {
      T* o = out + at[0];
      const T* x = in + at[1];
      if (so == 1 && si == 1) {
        for (int64_t i = 0; i < n; ++i) o[i] = static_cast<T>(f(static_cast<Compute<T>>(x[i])));
      } else {
        for (int64_t i = 0; i < n; ++i)
          o[i * so] = static_cast<T>(f(static_cast<Compute<T>>(x[i * si])));
      }
    });
  });
}

/// Element by element; floats in double.
template <class Functor, Takes takes>
void run_reference(const NoParams&, const LoopState<2>& state, const Call& c) {
  with_type<takes>(c.out[0].dtype(), [&]<class T>() {
    using Wide = std::conditional_t<std::is_integral_v<T>, Compute<T>, double>;
    T* out = c.out[0].as<T>();
    const T* in = c.in[0].as<T>();
    const Functor f;
    state.loop.each_run([&](const std::array<int64_t, 2>& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const auto x = static_cast<Wide>(in[at[1] + i * state.loop.inner_stride(1)]);
        out[at[0] + i * state.loop.inner_stride(0)] = static_cast<T>(f(x));
      }
    });
  });
}

}  // namespace unary

/// CPU kernels of a unary op from its functor.
template <class Functor, Takes takes = Takes::floats>
KernelList unary_cpu_kernels() {
  return {kernel<supports_all<NoParams>, unary::prepare, unary::run_vectorized<Functor, takes>>(
              "vectorized"),
          kernel<supports_all<NoParams>, unary::prepare, unary::run_reference<Functor, takes>>(
              "reference")};
}

}  // namespace mica

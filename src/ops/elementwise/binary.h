#pragma once

#include "mica/op/op_def.h"
#include "mica/ops/elementwise/cpu_loop.h"

namespace mica::binary {

/// Two operands of one dtype, broadcast.
inline void infer_as(const char* op, std::span<const TensorSpec> in, OutSpecs& out) {
  check(in[0].defined && in[1].defined, "{}: both operands must be defined", op);
  check<DTypeError>(in[0].dtype == in[1].dtype, "{}: operands must have one dtype, got {} and {}",
                    op, in[0].dtype, in[1].dtype);
  out.add(in[0].shape == in[1].shape ? in[0].shape : broadcast_shapes(in[0].shape, in[1].shape, op),
          in[0].dtype);
}

inline std::shared_ptr<LoopState<3>> prepare(const NoParams&, const Specs& s) {
  const Shape& shape = s.out[0].shape;
  return std::make_shared<LoopState<3>>(StridedLoop<3>(
      shape,
      {s.out[0].strides, broadcast_strides(s.in[0], shape), broadcast_strides(s.in[1], shape)}));
}

template <class Functor>
void run_vectorized(const NoParams&, const LoopState<3>& state, const Call& c) {
  switch_all(c.out[0].dtype(), [&]<class T>() {
    using C = Compute<T>;
    T* out = c.out[0].as<T>();
    const T* in_a = c.in[0].as<T>();
    const T* in_b = c.in[1].as<T>();
    const int64_t so = state.loop.inner_stride(0);
    const int64_t sa = state.loop.inner_stride(1);
    const int64_t sb = state.loop.inner_stride(2);
    const Functor f;
    state.loop.each_run([&](const std::array<int64_t, 3>& at, int64_t n) {
      T* o = out + at[0];
      const T* a = in_a + at[1];
      const T* b = in_b + at[2];
      if (so == 1 && sa == 1 && sb == 1) {
        for (int64_t i = 0; i < n; ++i)
          o[i] = static_cast<T>(f(static_cast<C>(a[i]), static_cast<C>(b[i])));
      } else if (so == 1 && sa == 1 && sb == 0) {
        const auto y = static_cast<C>(*b);
        for (int64_t i = 0; i < n; ++i) o[i] = static_cast<T>(f(static_cast<C>(a[i]), y));
      } else if (so == 1 && sa == 0 && sb == 1) {
        const auto x = static_cast<C>(*a);
        for (int64_t i = 0; i < n; ++i) o[i] = static_cast<T>(f(x, static_cast<C>(b[i])));
      } else {
        for (int64_t i = 0; i < n; ++i)
          o[i * so] = static_cast<T>(f(static_cast<C>(a[i * sa]), static_cast<C>(b[i * sb])));
      }
    });
  });
}

template <class Functor>
void run_reference(const NoParams&, const LoopState<3>& state, const Call& c) {
  switch_all(c.out[0].dtype(), [&]<class T>() {
    using Wide = std::conditional_t<std::is_integral_v<T>, Compute<T>, double>;
    T* out = c.out[0].as<T>();
    const T* a = c.in[0].as<T>();
    const T* b = c.in[1].as<T>();
    const Functor f;
    state.loop.each_run([&](const std::array<int64_t, 3>& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const auto x = static_cast<Wide>(a[at[1] + i * state.loop.inner_stride(1)]);
        const auto y = static_cast<Wide>(b[at[2] + i * state.loop.inner_stride(2)]);
        out[at[0] + i * state.loop.inner_stride(0)] = static_cast<T>(f(x, y));
      }
    });
  });
}

/// CPU kernels of a binary op from its functor.
template <class Functor>
KernelList cpu_kernels() {
  return {kernel<supports_all<NoParams>, prepare, run_vectorized<Functor>>("vectorized"),
          kernel<supports_all<NoParams>, prepare, run_reference<Functor>>("reference")};
}

}  // namespace mica::binary

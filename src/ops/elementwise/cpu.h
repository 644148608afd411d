#pragma once

// CPU kernels of an elementwise op from its functor. A run of elements is brought into the type the
// function computes in (float, double, int64_t), unless it lies there already, so that a functor is
// compiled for those types alone and not for each dtype and stride.
#include "mica/op/op_def.h"
#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/elementwise/takes.h"
#include "mica/runtime/cpu/convert.h"
#include "mica/runtime/cpu/simd.h"
#include "mica/runtime/cpu/stream.h"

namespace mica {

namespace elementwise {

inline constexpr int64_t kChunk = 1024;  ///< elements brought into cache at a time

template <class F, class C, size_t... I>
auto apply(const F& f, const C* x, std::index_sequence<I...>) {
  return f(x[I]...);
}
/// f of one element (or vector) of each operand.
template <size_t N, class F, class C>
auto apply(const F& f, const C (&x)[N]) {
  return apply(f, x, std::make_index_sequence<N>());
}

template <size_t N, class F, class C>
inline constexpr bool kPredicate =
    std::is_same_v<decltype(apply<N>(std::declval<const F&>(), std::declval<C (&)[N]>())), bool>;

/// out[i] = f(in[0][i], …) for dense operands, by vectors where C is a float type.
template <size_t N, class F, class C>
void apply_vectors(const F& f, const C* const (&in)[N], int64_t n, C* out) {
  using Vec = simd::Vec<C>;
  Vec x[N];
  int64_t i = 0;
  for (; i + Vec::kWidth <= n; i += Vec::kWidth) {
    for (size_t k = 0; k < N; ++k) x[k] = Vec::load(in[k] + i);
    apply<N>(f, x).store(out + i);
  }
  if (i == n) return;
  const int64_t rest = n - i;
  for (size_t k = 0; k < N; ++k) {
    x[k] = Vec(in[k][i]);
    std::memcpy(&x[k].v, in[k] + i, static_cast<size_t>(rest) * sizeof(C));
  }
  const Vec y = apply<N>(f, x);
  std::memcpy(out + i, &y.v, static_cast<size_t>(rest) * sizeof(C));
}

/// The same one by one: integers, predicates, and the reference.
template <size_t N, class F, class C, class Out>
void apply_singly(const F& f, const C* const (&in)[N], int64_t n, Out* out) {
  for (int64_t i = 0; i < n; ++i) {
    C x[N];
    for (size_t k = 0; k < N; ++k) x[k] = in[k][i];
    out[i] = static_cast<Out>(apply<N>(f, x));
  }
}

template <class Out, class Result>
void store_results(const Result* from, int64_t n, Out* to, int64_t stride) {
  if constexpr (std::is_same_v<Out, Result>) {
    for (int64_t i = 0; i < n; ++i) to[i * stride] = from[i];
  } else {
    store_run(from, n, to, stride);
  }
}

template <class Out, class Result>
void stream_results(const Result* from, int64_t n, Out* to) {
  const size_t bytes = static_cast<size_t>(n) * sizeof(Out);
  if constexpr (std::is_same_v<Out, Result>) {
    stream_bytes(to, from, bytes);
  } else {
    Out converted[kChunk];
    store_run(from, n, converted, 1);
    stream_bytes(to, converted, bytes);
  }
}

template <size_t N, class F>
std::shared_ptr<LoopState<N + 1>> prepare(const ParamsOf<F>&, const Specs& s) {
  std::array<Strides, N + 1> strides{s.out[0].strides};
  for (size_t k = 0; k < N; ++k) strides[k + 1] = broadcast_strides(s.in[k], s.out[0].shape);
  return std::make_shared<LoopState<N + 1>>(StridedLoop<N + 1>(s.out[0].shape, strides));
}

/// Runs f over every element of operands of type T, computing in C.
template <size_t N, class T, class C, bool vectors, class F>
void run_as(const F& f, const StridedLoop<N + 1>& loop, const Call& c) {
  constexpr bool kBools = kPredicate<N, F, C>;
  using Out = std::conditional_t<kBools, bool, T>;
  using Result = std::conditional_t<kBools, bool, C>;
  std::array<int64_t, N + 1> stride;
  for (size_t k = 0; k <= N; ++k) stride[k] = loop.inner_stride(static_cast<int>(k));
  // Dense operands of the computing type are read and written where they lie.
  const auto dense = [&](size_t k) {
    return stride[k] == 1 && (k == 0 ? std::is_same_v<Out, Result> : std::is_same_v<T, C>);
  };
  // A large result is written past the caches, from a buffer.
  const bool large = stride[0] == 1 && loop.inner() >= kChunk &&
                     static_cast<size_t>(loop.numel) * sizeof(Out) >= kStreamingBytes;
  bool whole = !large;
  for (size_t k = 0; k <= N; ++k) whole = whole && dense(k);

  loop.each_run([&](const std::array<int64_t, N + 1>& at, int64_t n) {
    C values[N][kChunk];
    Result results[kChunk];
    const T* x[N];
    const C* in[N];
    for (size_t k = 0; k < N; ++k) {
      x[k] = c.in[k].template as<T>() + at[k + 1];
      in[k] = values[k];
      if (stride[k + 1] == 0) load_run(x[k], 0, std::min(n, kChunk), values[k]);
    }
    Out* out = c.out[0].template as<Out>() + at[0];
    const int64_t step = whole ? n : kChunk;
    for (int64_t i = 0; i < n; i += step) {
      const int64_t m = std::min(step, n - i);
      for (size_t k = 0; k < N; ++k) {
        if (stride[k + 1] == 0) continue;
        if (dense(k + 1)) {
          in[k] = reinterpret_cast<const C*>(x[k] + i);
        } else {
          load_run(x[k] + i * stride[k + 1], stride[k + 1], m, values[k]);
        }
      }
      Result* y = dense(0) && !large ? reinterpret_cast<Result*>(out + i) : results;
      if constexpr (vectors && !kBools) {
        apply_vectors<N>(f, in, m, y);
      } else {
        apply_singly<N>(f, in, m, y);
      }
      if (large) {
        stream_results(y, m, out + i);
      } else if (!dense(0)) {
        store_results(y, m, out + i * stride[0], stride[0]);
      }
    }
    if (large) stream_fence();
  });
}

/// Calls `f.operator()<T, C>()` with the type of a dtype and the one its arithmetic happens in.
template <Takes takes, class F>
void with_types(DType t, F&& f) {
  switch_all(t, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      if constexpr (takes != Takes::floats) f.template operator()<T, int64_t>();
    } else {
      if constexpr (takes != Takes::bits) f.template operator()<T, Compute<T>>();
    }
  });
}

template <class F>
const F& functor_of(const ParamsOf<F>& params) {
  if constexpr (std::is_empty_v<F>) {
    static const F none{};
    return none;
  } else {
    return params;
  }
}

/// In the type's own precision (f16 and bf16 in float), by vectors.
template <class F, size_t N, Takes takes>
void run_vectorized(const ParamsOf<F>& params, const LoopState<N + 1>& state, const Call& c) {
  with_types<takes>(c.in[0].dtype(), [&]<class T, class C>() {
    run_as<N, T, C, std::is_floating_point_v<C>>(functor_of<F>(params), state.loop, c);
  });
}

/// Element by element; floats in double.
template <class F, size_t N, Takes takes>
void run_reference(const ParamsOf<F>& params, const LoopState<N + 1>& state, const Call& c) {
  with_types<takes>(c.in[0].dtype(), [&]<class T, class C>() {
    using Wide = std::conditional_t<std::is_floating_point_v<C>, double, C>;
    run_as<N, T, Wide, false>(functor_of<F>(params), state.loop, c);
  });
}

/// Operands of one dtype, broadcast; the result has it too, or is bool.
template <class F, size_t N, Takes takes>
void infer(const ParamsOf<F>&, std::span<const TensorSpec> in, OutSpecs& out) {
  Shape shape = in[0].shape;
  for (size_t k = 1; k < N; ++k) {
    check(in[0].defined && in[k].defined, "{}: every operand must be defined", out.op());
    check<DTypeError>(in[k].dtype == in[0].dtype, "{}: operands must have one dtype, got {} and {}",
                      out.op(), in[0].dtype, in[k].dtype);
    if (in[k].shape != shape) shape = broadcast_shapes(shape, in[k].shape, out.op());
  }
  out.add(shape, kPredicate<N, F, std::conditional_t<takes == Takes::bits, int64_t, double>>
                     ? DType::boolean
                     : in[0].dtype);
}

}  // namespace elementwise

/// The definition of an elementwise op of N operands from its functor; what is left to say is the
/// gradient: `elementwise_op<functor::Exp>("exp").vjp<vjp_exp>({.out = {0}}).build()`.
template <class F, size_t N = 1, Takes takes = Takes::floats>
Op<ParamsOf<F>> elementwise_op(const char* name) {
  using namespace elementwise;
  using P = ParamsOf<F>;
  Op<P> op(name);
  op.dtypes(takes == Takes::floats ? kFloatDTypes
            : takes == Takes::bits ? kBitDTypes
                                   : kAllDTypes)
      .template infer<elementwise::infer<F, N, takes>>()
      .elementwise(N)
      .cpu({kernel<supports_all<P>, prepare<N, F>, run_vectorized<F, N, takes>>("vectorized"),
            kernel<supports_all<P>, prepare<N, F>, run_reference<F, N, takes>>("reference")});
  return op;
}

}  // namespace mica

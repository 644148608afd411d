#pragma once

// CPU kernels of an elementwise op from its functor. The loops over memory do not know the functor:
// they bring runs of elements into the carrier of their dtype (float, double, int64_t, uint64_t),
// unless they lie there already, and call it for a run. So a functor is compiled for those types
// alone.
#include "mica/core/error.h"
#include "mica/op/op_def.h"
#include "mica/ops/elementwise/avx512.h"
#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/elementwise/takes.h"
#include "mica/runtime/cpu/cpu_features.h"

namespace mica {

namespace elementwise {

template <size_t N, class F, class C>
inline constexpr bool kPredicate =
    std::is_same_v<decltype(apply<N>(std::declval<const F&>(), std::declval<C (&)[N]>())), bool>;

/// A functor that computes in C without its type.
template <class C, class Result>
struct Function {
  const void* functor;
  Apply<C, Result> apply;
  bool streams = false;  ///< whether `apply` can write past the caches
};

/// Runs f over every element of operands of one dtype. Result is C, and the results of that dtype
/// too, or bool.
template <size_t N, class C, class Result>
void run_function(const Function<C, Result>& f, const StridedLoop<N + 1>& loop, const Call& c);

/// A functor by vectors, for float and double.
template <size_t N, class F, class C>
auto vectorized(const F& f) {
  static_assert(std::is_floating_point_v<C>);
  const auto apply = [](const void* p, const C* const* in, int64_t n, C* out, Store store) {
    apply_vectors<N>(*static_cast<const F*>(p), in, n, out, store);
  };
  return Function<C, C>{&f, apply, true};
}

template <size_t N, class F, class C>
auto one_by_one(const F& f) {
  using Result = std::conditional_t<kPredicate<N, F, C>, bool, C>;
  const auto singly = [](const void* p, const C* const* in, int64_t n, Result* out, Store) {
    const F g = *static_cast<const F*>(p);
    for (int64_t i = 0; i < n; ++i) {
      C x[N];
      for (size_t k = 0; k < N; ++k) x[k] = in[k][i];
      if constexpr (std::is_integral_v<C> && requires { F::kByZero; })
        if (x[1] == 0) throw Error(F::kByZero);
      out[i] = static_cast<Result>(apply<N>(g, x));
    }
  };
  return Function<C, Result>{&f, singly};
}

template <size_t N, class F>
std::shared_ptr<LoopState<N + 1>> prepare(const ParamsOf<F>&, const Specs& s) {
  std::array<Strides, N + 1> strides{s.out[0].strides};
  for (size_t k = 0; k < N; ++k) strides[k + 1] = broadcast_strides(s.in[k], s.out[0].shape);
  return std::make_shared<LoopState<N + 1>>(StridedLoop<N + 1>(s.out[0].shape, strides));
}

/// Calls `f.operator()<C>()` with the type that elements of a dtype are computed in.
template <Takes takes, class F>
void with_carrier(DType t, F&& f) {
  switch_carrier(t, [&]<class C>() {
    if constexpr (takes != (std::is_integral_v<C> ? Takes::floats : Takes::bits))
      f.template operator()<C>();
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

/// By vectors of the processor's size, or of 64 bytes.
template <class F, size_t N, class C, bool wide>
void run_dense(const void* params, const void* const* in, int64_t n, void* out, Store store) {
  const F& f = functor_of<F>(*static_cast<const ParamsOf<F>*>(params));
  const C* x[N];
  for (size_t k = 0; k < N; ++k) x[k] = static_cast<const C*>(in[k]);
  if constexpr (wide) {
    apply_avx512<F, N, C>(&f, x, n, static_cast<C*>(out), store);
  } else {
    vectorized<N, F, C>(f).apply(&f, x, n, static_cast<C*>(out), store);
  }
}

/// `prepare` of the kernels that compute by vectors.
template <class F, size_t N, Takes takes, bool wide>
std::shared_ptr<LoopState<N + 1>> prepare_vectors(const ParamsOf<F>& params, const Specs& s) {
  auto state = prepare<N, F>(params, s);
  if constexpr (takes != Takes::bits) {
    if constexpr (!kPredicate<N, F, float>) {
      if (s.in[0].dtype == DType::f32) state->dense = run_dense<F, N, float, wide>;
      if (s.in[0].dtype == DType::f64) state->dense = run_dense<F, N, double, wide>;
    }
  }
  return state;
}

/// In the type's own precision (f16 and bf16 in float), by vectors; integers and predicates one by
/// one.
template <class F, size_t N, Takes takes>
void run_vectorized(const ParamsOf<F>& params, const LoopState<N + 1>& state, const Call& c) {
  const F& f = functor_of<F>(params);
  with_carrier<takes>(c.in[0].dtype(), [&]<class C>() {
    if constexpr (std::is_floating_point_v<C> && !kPredicate<N, F, C>) {
      run_function<N>(vectorized<N, F, C>(f), state.loop, c);
    } else {
      run_function<N>(one_by_one<N, F, C>(f), state.loop, c);
    }
  });
}

/// The same by vectors of 64 bytes.
template <class F, size_t N>
void run_avx512(const ParamsOf<F>& params, const LoopState<N + 1>& state, const Call& c) {
  const F& f = functor_of<F>(params);
  with_carrier<Takes::floats>(c.in[0].dtype(), [&]<class C>() {
    run_function<N>(Function<C, C>{&f, apply_avx512<F, N, C>, true}, state.loop, c);
  });
}

template <class P>
Support supports_avx512(const P&, const Specs& s) {
  if (!has_avx512()) return Support::no("this processor has no AVX-512 (x86-64-v4)");
  if (!is_floating(s.in[0].dtype)) return Support::no("integers are computed one by one");
  return Support::yes();
}

/// Element by element; floats in double.
template <class F, size_t N, Takes takes>
void run_reference(const ParamsOf<F>& params, const LoopState<N + 1>& state, const Call& c) {
  const F& f = functor_of<F>(params);
  with_carrier<takes>(c.in[0].dtype(), [&]<class C>() {
    using Wide = std::conditional_t<std::is_floating_point_v<C>, double, C>;
    run_function<N>(one_by_one<N, F, Wide>(f), state.loop, c);
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
/// One that computes much is `wide`: it has a kernel for AVX-512, from cpu_avx512.cpp in its room.
template <class F, size_t N = 1, Takes takes = Takes::floats, bool wide = false>
Op<ParamsOf<F>> elementwise_op(const char* name) {
  using namespace elementwise;
  using P = ParamsOf<F>;
  KernelList kernels = {
      kernel<supports_all<P>, prepare_vectors<F, N, takes, false>, run_vectorized<F, N, takes>>(
          "vectorized"),
      kernel<supports_all<P>, prepare<N, F>, run_reference<F, N, takes>>("reference")};
  if constexpr (wide && kAvx512Files)
    kernels.insert(
        kernels.begin(),
        kernel<supports_avx512<P>, prepare_vectors<F, N, takes, true>, run_avx512<F, N>>("avx512"));
  Op<P> op(name);
  op.dtypes(takes == Takes::floats ? kFloatDTypes
            : takes == Takes::bits ? kBitDTypes
                                   : kComputedDTypes)
      .template infer<elementwise::infer<F, N, takes>>()
      .elementwise(N)
      .template functor<F>()
      .cpu(std::move(kernels));
  return op;
}
/// A function of floats that computes much.
template <class F, size_t N = 1>
Op<ParamsOf<F>> wide_elementwise_op(const char* name) {
  return elementwise_op<F, N, Takes::floats, true>(name);
}

}  // namespace mica

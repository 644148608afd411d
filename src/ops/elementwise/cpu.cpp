// The loops of elementwise kernels over memory, for functors of any type.
#include "mica/ops/elementwise/cpu.h"

#include "mica/runtime/cpu/convert.h"
#include "mica/runtime/cpu/stream.h"

namespace mica::elementwise {
namespace {

constexpr int64_t kChunk = 1024;  // elements brought into cache at a time

/// Elements of the carrier's own type lie as they are.
template <class T, class C>
void load_values(const T* from, int64_t stride, int64_t n, C* to) {
  if constexpr (std::is_same_v<T, C> && kIsComplex<C>) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  } else {
    load_run(from, stride, n, to);
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

/// For operands of type T.
template <size_t N, class T, class C, class Result>
void run_typed(const Function<C, Result>& f, const StridedLoop<N + 1>& loop, const Call& c) {
  using Out = std::conditional_t<std::is_same_v<Result, C>, T, Result>;
  std::array<int64_t, N + 1> stride;
  for (size_t k = 0; k <= N; ++k) stride[k] = loop.inner_stride(static_cast<int>(k));
  // Dense operands of the computing type are read and written where they lie.
  const auto dense = [&](size_t k) {
    return stride[k] == 1 && (k == 0 ? std::is_same_v<Out, Result> : std::is_same_v<T, C>);
  };
  // A large result is written past the caches, by the function itself or from a buffer.
  const bool large = stride[0] == 1 && loop.inner() >= kChunk &&
                     static_cast<size_t>(loop.numel) * sizeof(Out) >= kStreamingBytes;
  const bool direct = dense(0) && (!large || f.streams);
  const Store store = large && direct ? Store::streamed : Store::cached;
  bool whole = direct;
  for (size_t k = 1; k <= N; ++k) whole = whole && dense(k);

  loop.each_run([&](const std::array<int64_t, N + 1>& at, int64_t n) {
    alignas(simd::kBytes) C values[N][kChunk];
    alignas(simd::kBytes) Result results[kChunk];
    const T* x[N];
    const C* in[N];
    for (size_t k = 0; k < N; ++k) {
      x[k] = c.in[k].template as<T>() + at[k + 1];
      in[k] = values[k];
      if (stride[k + 1] == 0) load_values(x[k], 0, std::min(n, kChunk), values[k]);
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
          load_values(x[k] + i * stride[k + 1], stride[k + 1], m, values[k]);
        }
      }
      Result* y = direct ? reinterpret_cast<Result*>(out + i) : results;
      f.apply(f.functor, in, m, y, store);
      if (direct) continue;
      large ? stream_results(y, m, out + i) : store_results(y, m, out + i * stride[0], stride[0]);
    }
    if (large) stream_fence();
  });
}

/// Whether C computes elements of T: its carrier does, and double any float for the reference.
template <class T, class C>
inline constexpr bool kComputes =
    kIsComplex<T> || kIsComplex<C> ? std::is_same_v<T, C>
    : std::is_integral_v<C>
        ? std::is_integral_v<T> && std::is_same_v<T, uint64_t> == std::is_same_v<C, uint64_t>
        : !std::is_integral_v<T> && sizeof(C) >= sizeof(Compute<T>);

}  // namespace

template <size_t N, class C, class Result>
void run_function(const Function<C, Result>& f, const StridedLoop<N + 1>& loop, const Call& c) {
  const auto run = [&]<class T>() {
    if constexpr (kComputes<T, C>) run_typed<N, T>(f, loop, c);
  };
  if constexpr (kIsComplex<C>) {
    switch_complex(c.in[0].dtype(), "elementwise", run);
  } else {
    switch_computed(c.in[0].dtype(), "elementwise", run);
  }
}

#define MICA_RUN(N, C)                                                                          \
  template void run_function<N>(const Function<C, C>&, const StridedLoop<N + 1>&, const Call&); \
  template void run_function<N>(const Function<C, bool>&, const StridedLoop<N + 1>&, const Call&);
#define MICA_RUN_ALL(N) \
  MICA_RUN(N, float)    \
  MICA_RUN(N, double)   \
  MICA_RUN(N, int64_t)  \
  MICA_RUN(N, uint64_t)
MICA_RUN_ALL(1)
MICA_RUN_ALL(2)
MICA_RUN_ALL(3)
#define MICA_RUN_COMPLEX(T)                                                            \
  MICA_RUN(1, Complex<T>)                                                              \
  MICA_RUN(2, Complex<T>)                                                              \
  template void run_function<1>(const Function<Complex<T>, T>&, const StridedLoop<2>&, \
                                const Call&);                                          \
  template void run_function<2>(const Function<T, Complex<T>>&, const StridedLoop<3>&, const Call&);
MICA_RUN_COMPLEX(float)
MICA_RUN_COMPLEX(double)
#undef MICA_RUN_COMPLEX
#undef MICA_RUN_ALL
#undef MICA_RUN

}  // namespace mica::elementwise

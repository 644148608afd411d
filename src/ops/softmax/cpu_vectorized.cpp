#include <cmath>
#include <limits>

#include "mica/ops/layouts.h"
#include "mica/ops/softmax/cpu.h"
#include "mica/ops/softmax/lines.h"
#include "mica/ops/softmax/row.h"
#include "mica/runtime/cpu/cpu_features.h"
#include "mica/runtime/cpu/parallel.h"
#include "mica/runtime/cpu/runs.h"

// A dense tensor is (outer, n, inner) in memory, the axis in the middle. Where inner is 1 a line is
// contiguous and is reduced along vectors; elsewhere a block of neighbouring lines is reduced
// vector by vector.
namespace mica {
namespace {

using simd::Vec;

constexpr int64_t kElementsPerThread = 1 << 13;
constexpr int64_t kBlockBytes = 1 << 19;  // of a block of lines: it is passed over thrice
constexpr int64_t kStreamed = 512;        // lines of a block that does not stay in cache
constexpr int64_t kRowBuffer = 4096;      // elements of a row of f16 or bf16 that is kept as float

struct State : SoftmaxLines {
  using SoftmaxLines::SoftmaxLines;
  int64_t block = 1;  ///< neighbouring lines at once
};

Support supports(const SoftmaxParams&, const Specs& specs) { return supports_layouts(specs, 0b1); }
Support supports_avx512(const SoftmaxParams& p, const Specs& specs) {
  if (!has_avx512()) return Support::no("this processor has no AVX-512 (x86-64-v4)");
  const TensorSpec& out = specs.out[0];
  if (p.axis != (out.is_contiguous() ? out.rank() - 1 : 1))
    return Support::no("computes lines that are contiguous only");
  return supports_layouts(specs, 0b1);
}
Support supports_grad(const SoftmaxParams&, const Specs& specs) {
  return supports_layouts(specs, 0b11);
}

std::shared_ptr<State> prepare(const SoftmaxParams& p, const Specs& specs) {
  auto state = std::make_shared<State>(specs.out[0], p.axis);
  // As many lines as stay in cache between the passes; where those are few, long runs instead.
  const int64_t fitting = kBlockBytes / (8 * std::max<int64_t>(state->n, 1)) / 16 * 16;
  state->block = fitting < 32 ? kStreamed : std::min(fitting, kRunLength);
  return state;
}

/// Calls f(first element) for each contiguous line, in parallel.
template <class F>
void for_lines(const State& s, F&& f) {
  const int64_t grain = std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(s.n, 1));
  parallel_for(s.outer, grain, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) f(line * s.n);
  });
}

/// Calls f(first element, lines) for each block of neighbouring lines, in parallel. Element k of
/// line i lies at first + i + k * inner.
template <class F>
void for_blocks(const State& s, F&& f) {
  const int64_t blocks = (s.inner + s.block - 1) / s.block;
  const int64_t elements = std::max<int64_t>(1, std::min(s.block, s.inner) * s.n);
  parallel_for(s.outer * blocks, std::max<int64_t>(1, kElementsPerThread / elements),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t from = i % blocks * s.block;
                   f(i / blocks * s.n * s.inner + from, std::min(s.block, s.inner - from));
                 }
               });
}

enum class Vectors { avx2, avx512 };

template <bool logarithm, Vectors vectors, class C>
void row(const C* x, C* y, int64_t n) {
  if constexpr (vectors == Vectors::avx512) {
    softmax_row::compute_avx512<logarithm>(x, y, n);
  } else {
    softmax_row::compute<logarithm>(x, y, n);
  }
}

template <bool logarithm, Vectors vectors, class T>
void line(const T* x, T* y, int64_t n) {
  using C = Compute<T>;
  if constexpr (kComputesInPlace<T>) return row<logarithm, vectors>(x, y, n);
  if (n <= kRowBuffer) {
    alignas(32) std::array<C, kRowBuffer> values;
    load_run(x, 1, n, values.data());
    row<logarithm, vectors>(values.data(), values.data(), n);
    return store_run(values.data(), n, y, 1);
  }
  RunReader<T> reader;
  C largest = -kInfinity<C>;
  for_runs<T>(n, [&](int64_t i, int64_t count) {
    largest = std::max(largest, largest_of(reader(x + i, count), count));
  });
  const Vec<C> shift(largest);
  double sum = 0;
  for_runs<T>(n, [&](int64_t i, int64_t count) {
    const C* from = reader(x + i, count);
    sum += sum_vectors<C>(count, [&](int64_t k, int64_t lanes) {
      return simd::exp_inline(load_lanes(from + k, lanes, -kInfinity<C>) - shift);
    });
  });
  const Vec<C> factor(1 / sum);
  const Vec<C> offset(std::log(sum));
  RunWriter<T> writer;
  for_runs<T>(n, [&](int64_t i, int64_t count) {
    const C* from = reader(x + i, count);
    C* to = writer.place(y + i);
    for_vectors<C>(count, [&](int64_t k, int64_t lanes) {
      const Vec<C> v = load_lanes(from + k, lanes, C(0)) - shift;
      store_lanes(logarithm ? v - offset : simd::exp_inline(v) * factor, to + k, lanes);
    });
    writer.finish(y + i, count);
  });
}

template <bool logarithm, class T>
void block(const T* x, T* y, int64_t n, int64_t inner, int64_t lines) {
  using C = Compute<T>;
  RunReader<T> reader;
  RunWriter<T> writer;
  alignas(32) std::array<C, kRunLength> largest;
  alignas(32) std::array<C, kRunLength> sum;
  const auto at = [](std::array<C, kRunLength>& a, int64_t k) { return a.data() + k; };
  const int64_t padded = (lines + 7) / 8 * 8;
  std::fill_n(largest.begin(), padded, -kInfinity<C>);
  std::fill_n(sum.begin(), padded, C(0));
  for (int64_t i = 0; i < n; ++i) {
    const C* from = reader(x + i * inner, lines);
    for_vectors<C>(lines, [&](int64_t k, int64_t lanes) {
      const Vec<C> v = larger(load_lanes(from + k, lanes, C(0)), Vec<C>::load(at(largest, k)));
      v.store(at(largest, k));
    });
  }
  constexpr bool kKept = !logarithm && kComputesInPlace<T>;
  for (int64_t i = 0; i < n; ++i) {
    const C* from = reader(x + i * inner, lines);
    C* kept = writer.place(y + i * inner);
    for_vectors<C>(lines, [&](int64_t k, int64_t lanes) {
      const Vec<C> e =
          simd::exp_inline(load_lanes(from + k, lanes, C(0)) - Vec<C>::load(at(largest, k)));
      if constexpr (kKept) store_lanes(e, kept + k, lanes);
      (e + Vec<C>::load(at(sum, k))).store(at(sum, k));
    });
  }
  for_vectors<C>(padded, [&](int64_t k, int64_t) {
    const Vec<C> s = Vec<C>::load(at(sum, k));
    (logarithm ? log(s) : Vec<C>(1) / s).store(at(sum, k));
  });
  for (int64_t i = 0; i < n; ++i) {
    const C* from = kKept ? writer.place(y + i * inner) : reader(x + i * inner, lines);
    C* to = writer.place(y + i * inner);
    for_vectors<C>(lines, [&](int64_t k, int64_t lanes) {
      Vec<C> v = load_lanes(from + k, lanes, C(0));
      const Vec<C> last = Vec<C>::load(at(sum, k));
      if constexpr (logarithm) {
        v = v - Vec<C>::load(at(largest, k)) - last;
      } else {
        v = (kKept ? v : simd::exp_inline(v - Vec<C>::load(at(largest, k)))) * last;
      }
      store_lanes(v, to + k, lanes);
    });
    writer.finish(y + i * inner, lines);
  }
}

template <bool logarithm, Vectors vectors = Vectors::avx2>
void run(const SoftmaxParams&, const State& s, const Call& call) {
  switch_float(call.out[0].dtype(), "softmax", [&]<class T>() {
    const T* x = call.in[0].as<T>();
    T* y = call.out[0].as<T>();
    if (s.inner == 1) {
      for_lines(s, [&](int64_t at) { line<logarithm, vectors>(x + at, y + at, s.n); });
    } else {
      for_blocks(s, [&](int64_t at, int64_t lines) {
        block<logarithm>(x + at, y + at, s.n, s.inner, lines);
      });
    }
  });
}

/// What an element adds to the sum of its line.
template <bool logarithm, class C>
Vec<C> term(Vec<C> dy, Vec<C> y) {
  return logarithm ? dy : dy * y;
}
template <bool logarithm, class C>
Vec<C> derivative(Vec<C> dy, Vec<C> y, Vec<C> sum) {
  if constexpr (logarithm) {
    return dy - simd::exp_inline(y) * sum;
  } else {
    return y * (dy - sum);
  }
}

template <bool logarithm, class T>
void line_grad(const T* dy, const T* y, T* dx, int64_t n) {
  using C = Compute<T>;
  RunReader<T> read_dy, read_y;
  RunWriter<T> writer;
  double sum = 0;
  for_runs<T>(n, [&](int64_t i, int64_t count) {
    const C* g = read_dy(dy + i, count);
    const C* p = read_y(y + i, count);
    sum += sum_vectors<C>(count, [&](int64_t k, int64_t lanes) {
      return term<logarithm>(load_lanes(g + k, lanes, C(0)), load_lanes(p + k, lanes, C(0)));
    });
  });
  for_runs<T>(n, [&](int64_t i, int64_t count) {
    const C* g = read_dy(dy + i, count);
    const C* p = read_y(y + i, count);
    C* to = writer.place(dx + i);
    for_vectors<C>(count, [&](int64_t k, int64_t lanes) {
      store_lanes(derivative<logarithm>(load_lanes(g + k, lanes, C(0)),
                                        load_lanes(p + k, lanes, C(0)), Vec<C>(sum)),
                  to + k, lanes);
    });
    writer.finish(dx + i, count);
  });
}

template <bool logarithm, class T>
void block_grad(const T* dy, const T* y, T* dx, int64_t n, int64_t inner, int64_t lines) {
  using C = Compute<T>;
  RunReader<T> read_dy, read_y;
  RunWriter<T> writer;
  alignas(32) std::array<C, kRunLength> sum;
  std::fill_n(sum.begin(), (lines + 7) / 8 * 8, C(0));
  for (int64_t i = 0; i < n; ++i) {
    const C* g = read_dy(dy + i * inner, lines);
    const C* p = read_y(y + i * inner, lines);
    for_vectors<C>(lines, [&](int64_t k, int64_t lanes) {
      const Vec<C> more =
          term<logarithm>(load_lanes(g + k, lanes, C(0)), load_lanes(p + k, lanes, C(0)));
      (more + Vec<C>::load(sum.data() + k)).store(sum.data() + k);
    });
  }
  for (int64_t i = 0; i < n; ++i) {
    const C* g = read_dy(dy + i * inner, lines);
    const C* p = read_y(y + i * inner, lines);
    C* to = writer.place(dx + i * inner);
    for_vectors<C>(lines, [&](int64_t k, int64_t lanes) {
      store_lanes(
          derivative<logarithm>(load_lanes(g + k, lanes, C(0)), load_lanes(p + k, lanes, C(0)),
                                Vec<C>::load(sum.data() + k)),
          to + k, lanes);
    });
    writer.finish(dx + i * inner, lines);
  }
}

template <bool logarithm>
void run_grad(const SoftmaxParams&, const State& s, const Call& call) {
  switch_float(call.out[0].dtype(), "softmax_grad", [&]<class T>() {
    const T* dy = call.in[0].as<T>();
    const T* y = call.in[1].as<T>();
    T* dx = call.out[0].as<T>();
    if (s.inner == 1) {
      for_lines(s, [&](int64_t at) { line_grad<logarithm>(dy + at, y + at, dx + at, s.n); });
    } else {
      for_blocks(s, [&](int64_t at, int64_t lines) {
        block_grad<logarithm>(dy + at, y + at, dx + at, s.n, s.inner, lines);
      });
    }
  });
}

}  // namespace

namespace {

template <bool logarithm>
KernelList forward_kernels(const Kernel& reference) {
  KernelList list;
  if constexpr (kAvx512Files)
    list.push_back(kernel<supports_avx512, prepare, run<logarithm, Vectors::avx512>>("avx512"));
  list.push_back(kernel<supports, prepare, run<logarithm>>("vectorized"));
  list.push_back(reference);
  return list;
}

}  // namespace

KernelList softmax_cpu_kernels() { return forward_kernels<false>(softmax_reference_kernel()); }
KernelList log_softmax_cpu_kernels() {
  return forward_kernels<true>(log_softmax_reference_kernel());
}
KernelList softmax_grad_cpu_kernels() {
  return {kernel<supports_grad, prepare, run_grad<false>>("vectorized"),
          softmax_grad_reference_kernel()};
}
KernelList log_softmax_grad_cpu_kernels() {
  return {kernel<supports_grad, prepare, run_grad<true>>("vectorized"),
          log_softmax_grad_reference_kernel()};
}

}  // namespace mica

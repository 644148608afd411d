// matmul and conv2d beside the same product by a direct call of oneDNN in the same plain layout:
// what mica adds. The primitive is made once and its arguments are bound once, as a careful user
// would.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <dnnl.hpp>

#include "mica/mica.h"

namespace mica {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

void rate(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

struct Product {
  int64_t m, k, n;
};
constexpr Product kProducts[] = {{64, 64, 64},       {256, 256, 256}, {1024, 1024, 1024},
                                 {2048, 2048, 2048}, {64, 3200, 500}, {64, 500, 10},
                                 {4096, 64, 64},     {64, 64, 4096}};

void matmul_mica(benchmark::State& state) {
  const NoGrad guard;
  const Product p = kProducts[state.range(0)];
  const Tensor a = uniform({p.m, p.k});
  const Tensor b = uniform({p.k, p.n});
  for (auto _ : state) benchmark::DoNotOptimize(matmul(a, b));
  rate(state, 2.0 * static_cast<double>(p.m * p.k * p.n));
}

void matmul_onednn(benchmark::State& state) {
  const Product p = kProducts[state.range(0)];
  const Tensor a = uniform({p.m, p.k});
  const Tensor b = uniform({p.k, p.n});
  for (auto _ : state) {
    const Tensor c = empty({p.m, p.n});
    dnnl_sgemm('N', 'N', p.m, p.n, p.k, 1, a.data_as<float>(), p.k, b.data_as<float>(), p.n, 0,
               c.data_as<float>(), p.n);
    benchmark::DoNotOptimize(c.data());
  }
  rate(state, 2.0 * static_cast<double>(p.m * p.k * p.n));
}

struct Convolution {
  Shape x, w;
  int64_t stride, padding;
};
const Convolution kConvolutions[] = {
    {{64, 1, 28, 28}, {20, 1, 5, 5}, 1, 0},     {{64, 20, 12, 12}, {50, 20, 5, 5}, 1, 0},
    {{8, 3, 224, 224}, {64, 3, 7, 7}, 2, 3},    {{8, 64, 56, 56}, {64, 64, 3, 3}, 1, 1},
    {{8, 128, 28, 28}, {128, 128, 3, 3}, 1, 1}, {{8, 256, 14, 14}, {256, 256, 3, 3}, 1, 1},
    {{8, 256, 56, 56}, {64, 256, 1, 1}, 1, 0},
};

double flops_of(const Convolution& c, const Tensor& y) {
  return 2.0 * static_cast<double>(y.numel() * c.w[1] * c.w[2] * c.w[3]);
}

void conv2d_mica(benchmark::State& state) {
  const NoGrad guard;
  const Convolution& c = kConvolutions[state.range(0)];
  const bool last = state.range(1) != 0;
  Tensor x = uniform(c.x);
  if (last) x = contiguous(x, MemoryFormat::channels_last);
  const Tensor w = uniform(c.w);
  const Conv2dParams params{.stride = c.stride, .padding = c.padding};
  const Tensor y = conv2d(x, w, {}, params);
  for (auto _ : state) benchmark::DoNotOptimize(conv2d(x, w, {}, params));
  rate(state, flops_of(c, y));
}

void conv2d_onednn(benchmark::State& state) {
  const Convolution& c = kConvolutions[state.range(0)];
  const bool last = state.range(1) != 0;
  const auto plain = last ? memory::format_tag::nhwc : memory::format_tag::nchw;
  const auto dims = [](const Shape& s) { return memory::dims(s.begin(), s.end()); };
  Tensor x = uniform(c.x);
  if (last) x = contiguous(x, MemoryFormat::channels_last);
  const Tensor w = uniform(c.w);
  const Tensor y = conv2d(x, w, {}, {.stride = c.stride, .padding = c.padding});
  const memory::desc xd(dims(c.x), memory::data_type::f32, plain);
  const memory::desc wd(dims(c.w), memory::data_type::f32, memory::format_tag::oihw);
  const memory::desc yd(dims(y.shape()), memory::data_type::f32, plain);
  const dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, xd, wd, yd,
      {c.stride, c.stride}, {c.padding, c.padding}, {c.padding, c.padding});
  const dnnl::convolution_forward::primitive_desc pd(desc, engine());
  const dnnl::convolution_forward primitive(pd);
  dnnl::stream stream(engine());
  for (auto _ : state) {
    const Tensor out = empty(y.spec());
    const memory xm(xd, engine(), x.data());
    const memory wm(wd, engine(), w.data());
    const memory ym(yd, engine(), out.data());
    primitive.execute(stream, {{DNNL_ARG_SRC, xm}, {DNNL_ARG_WEIGHTS, wm}, {DNNL_ARG_DST, ym}});
    benchmark::DoNotOptimize(out.data());
  }
  rate(state, flops_of(c, y));
}

BENCHMARK(matmul_mica)->DenseRange(0, 7)->UseRealTime();
BENCHMARK(matmul_onednn)->DenseRange(0, 7)->UseRealTime();
BENCHMARK(conv2d_mica)->ArgsProduct({benchmark::CreateDenseRange(0, 6, 1), {0, 1}})->UseRealTime();
BENCHMARK(conv2d_onednn)
    ->ArgsProduct({benchmark::CreateDenseRange(0, 6, 1), {0, 1}})
    ->UseRealTime();

}  // namespace
}  // namespace mica

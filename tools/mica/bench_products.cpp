#include <fmt/core.h>

#include "tools/mica/ops_bench.h"

namespace mica::tool {
namespace {

const char* const kCudaArithmetic[] = {"f32", "tf32", "f16", "bf16"};

struct Product {
  const char* name;
  int64_t batch, m, n, k;
  bool transposed = false;  ///< b is given as (N, K)
};
constexpr Product kProducts[] = {
    {"256", 1, 256, 256, 256},
    {"1024", 1, 1024, 1024, 1024},
    {"2048", 1, 2048, 2048, 2048},
    {"4096", 1, 4096, 4096, 4096},
    {"8192", 1, 8192, 8192, 8192},
    {"256x800 by 800x500", 1, 256, 500, 800},
    {"32768x1024 by 1024x1024", 1, 32768, 1024, 1024},
    {"64x4096 by transposed 4096x4096", 1, 64, 4096, 4096, true},
    {"128 of 512x64 by transposed 64x512", 128, 512, 512, 64, true},
    {"128 of 512x512 by 512x64", 128, 512, 64, 512},
};

struct Convolution {
  const char* name;
  Shape x, w;
  int64_t stride, padding, groups;
};
const Convolution kConvolutions[] = {
    {"20x1x5x5 on 256x1x28x28", {256, 1, 28, 28}, {20, 1, 5, 5}, 1, 0, 1},
    {"50x20x5x5 on 256x20x12x12", {256, 20, 12, 12}, {50, 20, 5, 5}, 1, 0, 1},
    {"16x3x3x3 on 256x3x32x32", {256, 3, 32, 32}, {16, 3, 3, 3}, 1, 1, 1},
    {"32x16x3x3 on 256x16x16x16", {256, 16, 16, 16}, {32, 16, 3, 3}, 1, 1, 1},
    {"64x3x7x7 stride 2 on 64x3x224x224", {64, 3, 224, 224}, {64, 3, 7, 7}, 2, 3, 1},
    {"64x64x3x3 on 64x64x56x56", {64, 64, 56, 56}, {64, 64, 3, 3}, 1, 1, 1},
    {"64x256x1x1 on 64x256x56x56", {64, 256, 56, 56}, {64, 256, 1, 1}, 1, 0, 1},
    {"256x256x3x3 on 64x256x14x14", {64, 256, 14, 14}, {256, 256, 3, 3}, 1, 1, 1},
    {"512x512x3x3 on 64x512x7x7", {64, 512, 7, 7}, {512, 512, 3, 3}, 1, 1, 1},
    {"128 groups 3x3 on 64x128x28x28", {64, 128, 28, 28}, {128, 1, 3, 3}, 1, 1, 128},
};

void bench_convolution(OpsBench& bench, Convolution c, const std::string& arithmetic) {
  const auto named = [&](const char* op) {
    return fmt::format("{} {}, {}", op, c.name, arithmetic);
  };
  if (!bench.wants(named("conv2d")) && !bench.wants(named("conv2d_dgrad")) &&
      !bench.wants(named("conv2d_wgrad")))
    return;
  const TensorOptions options{.dtype = use_arithmetic(arithmetic), .device = bench.device()};
  if (bench.device().is_cpu()) c.x[0] /= 8;
  const Conv2dParams params{.stride = c.stride, .padding = c.padding, .groups = c.groups};
  const Conv2dGradParams for_x{params, c.x};
  std::vector<std::function<void()>> forward, dgrad, wgrad;
  double elements = 0;
  double flops = 0;
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const Tensor x = contiguous(uniform(c.x, -1, 1, options), format);
    const Tensor w = contiguous(uniform(c.w, -1, 1, options), format);
    const Tensor y = conv2d(x, w, {}, params);
    elements = static_cast<double>(x.numel() + w.numel() + y.numel());
    flops = 2.0 * static_cast<double>(y.numel() * c.w[1] * c.w[2] * c.w[3]);
    forward.emplace_back([=] { conv2d(x, w, {}, params); });
    dgrad.emplace_back([=] { conv2d_dgrad(y, w, for_x); });
    const Conv2dGradParams for_w{params, c.w, w.spec().is_channels_last()};
    wgrad.emplace_back([=] { conv2d_wgrad(y, x, for_w); });
  }
  const Work work{elements * static_cast<double>(size_of(options.dtype)), flops, arithmetic};
  bench.row(named("conv2d"), work, forward);
  bench.row(named("conv2d_dgrad"), work, dgrad);
  bench.row(named("conv2d_wgrad"), work, wgrad);
}

}  // namespace

void bench_products(OpsBench& bench) {
  const bool tf32 = allow_tf32();
  const size_t kinds = bench.device().is_cuda() ? 4 : 1;
  for (const std::string arithmetic : std::span(kCudaArithmetic, kinds)) {
    for (const Product& p : kProducts) {
      if (bench.device().is_cpu() && p.m * p.n * p.k * p.batch > int64_t{1} << 33) continue;
      const std::string name = fmt::format("matmul {}, {}", p.name, arithmetic);
      if (!bench.wants(name)) continue;
      const TensorOptions options{.dtype = use_arithmetic(arithmetic), .device = bench.device()};
      Tensor a = uniform({p.batch, p.m, p.k}, -1, 1, options);
      Tensor b = p.transposed ? transpose(uniform({p.batch, p.n, p.k}, -1, 1, options), 1, 2)
                              : uniform({p.batch, p.k, p.n}, -1, 1, options);
      if (p.batch == 1) {
        a = select(a, 0, 0);
        b = select(b, 0, 0);
      }
      const double elements = static_cast<double>(a.numel() + b.numel() + p.batch * p.m * p.n);
      const double flops = 2.0 * static_cast<double>(p.batch * p.m * p.n * p.k);
      bench.row(name, {elements * static_cast<double>(size_of(options.dtype)), flops, arithmetic},
                {[&] { matmul(a, b); }});
    }
    for (const Convolution& c : kConvolutions) bench_convolution(bench, c, arithmetic);
  }
  set_allow_tf32(tf32);
}

}  // namespace mica::tool

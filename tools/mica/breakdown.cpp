#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "tools/mica/ops_bench.h"
#include "tools/mica/workloads.h"

namespace mica::tool {
namespace {

/// What a device does at most, per second.
struct Rates {
  double bytes = 0;    ///< of a copy, read and written
  double flops = 0;    ///< of a large product of f32
  double halves = 0;   ///< of f16 and bf16
  double doubles = 0;  ///< of f64
};

Rates rates_of(Device device) {
  if (device.is_cuda())  // an H200, measured; f64 by its data sheet
    return {4.26e12, allow_tf32() ? 395e12 : 52e12, 790e12, 67e12};
  OpsBench measured(device, "", false);
  const double flops = measured.product_rate("f32");
  return {measured.copy_rate(), flops, flops, flops / 2};
}

/// The two numbers of a field of printed parameters: "{stride = {1, 1}, padding = …".
Size2 field(const std::string& params, const std::string& name) {
  for (const char* before : {"{", ", "}) {
    const std::string start = before + name + " = ";
    const size_t at = params.find(start);
    long long h = 0;
    long long w = 0;
    if (at != std::string::npos &&
        std::sscanf(params.c_str() + at + start.size(), "{%lld, %lld}", &h, &w) == 2)
      return {h, w};
  }
  return 1;
}

/// Multiplications and additions of a convolution, of one that is a gradient, or of one with a
/// pooling: as many as without it.
double flops_of_conv2d(const Plan::StepInfo& s) {
  const std::string_view op = s.op;
  const bool dgrad = op.find("dgrad") != op.npos;
  const bool wgrad = op.find("wgrad") != op.npos;
  const TensorSpec& x = dgrad ? s.out[0] : wgrad ? s.in.back() : s.in[0];
  const TensorSpec& w = dgrad ? s.in.back() : wgrad ? s.out[0] : s.in[1];
  if (x.rank() != 4 || w.rank() != 4) return 0;
  const Size2 stride = field(s.params, "stride");
  const Size2 padding = field(s.params, "padding");
  const Size2 dilation = field(s.params, "dilation");
  const auto places = [](int64_t n, int64_t k, int64_t step, int64_t pad, int64_t apart) {
    return (n + 2 * pad - apart * (k - 1) - 1) / step + 1;
  };
  const int64_t h = places(x.shape[2], w.shape[2], stride.h, padding.h, dilation.h);
  const int64_t v = places(x.shape[3], w.shape[3], stride.w, padding.w, dilation.w);
  return 2.0 * static_cast<double>(x.shape[0] * h * v) * static_cast<double>(w.numel());
}

/// 0 for steps that are no products.
double flops_of(const Plan::StepInfo& s) {
  const std::string_view op = s.op;
  if (s.in.size() < 2 || s.out.empty()) return 0;
  if (op.starts_with("conv2d")) return flops_of_conv2d(s);
  const auto numel = [](const TensorSpec& t) { return static_cast<double>(t.numel()); };
  if (op == "matmul") return 2 * numel(s.out[0]) * static_cast<double>(s.in[0].shape.back());
  if (op.starts_with("linear") && op != "linear_scan")  // tensors of M·K, K·N and M·N elements
    return 2 * std::sqrt(numel(s.in[0]) * numel(s.in[1]) * numel(s.out[0]));
  return 0;
}

double floor_of(const Plan::StepInfo& s, const Rates& rates) {
  const DType dtype = s.in.empty() ? DType::f32 : s.in[0].dtype;
  const double rate = dtype == DType::f16 || dtype == DType::bf16 ? rates.halves
                      : dtype == DType::f64                       ? rates.doubles
                                                                  : rates.flops;
  return std::max(s.bytes / rates.bytes, flops_of(s) / rate);
}

/// "f32[64, 800], f32[500, 800] → f32[64, 500]", with at most so many on either side.
std::string shapes_of(const Plan::StepInfo& s, size_t most) {
  std::string text;
  for (const auto* side : {&s.in, &s.out}) {
    if (side == &s.out) text += text.empty() ? "→ " : " → ";
    for (size_t i = 0; i < std::min(most, side->size()); ++i)
      text += fmt::format("{}{}", i > 0 ? ", " : "", (*side)[i]);
    if (side->size() > most) text += fmt::format(" and {} more", side->size() - most);
  }
  return text;
}

}  // namespace

void bench_breakdown(const std::string& workload, const Plan& plan, double seconds, bool json) {
  constexpr size_t kMostShapes = 3;
  constexpr size_t kAll = 1000;
  const auto us = [](double s) { return std::round(s * 1e8) / 1e2; };
  const Device device = plan.captured().device;
  const Rates rates = rates_of(device);
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  double sum = 0;
  double floors = 0;
  if (!json)
    fmt::print("{}: {} steps\n{:>9} {:>9}  {}\n", workload, plan.steps(), "µs", "floor", "step");
  for (size_t i = 0; i < plan.steps(); ++i) {
    const Plan::StepInfo s = plan.step(i);
    const double time = plan.seconds_of_step(i);
    const double floor = floor_of(s, rates);
    sum += time;
    floors += floor;
    if (json) {
      steps.push_back({{"op", s.op},
                       {"kernel", s.kernel},
                       {"shapes", shapes_of(s, kAll)},
                       {"params", s.params},
                       {"us", us(time)},
                       {"floor_us", us(floor)},
                       {"bytes", s.bytes},
                       {"flops", flops_of(s)}});
    } else {
      fmt::print("{:>8.2f} {:>9.2f}  {}: {}  {}\n", time * 1e6, floor * 1e6, s.op, s.kernel,
                 shapes_of(s, kMostShapes));
      std::fflush(stdout);
    }
  }
  if (json) {
    const nlohmann::ordered_json line = {{"peer", "mica"},
                                         {"workload", workload},
                                         {"variant", "breakdown"},
                                         {"device", to_string(device)},
                                         {"us_per_step", us(seconds)},
                                         {"sum_us", us(sum)},
                                         {"floor_us", us(floors)},
                                         {"steps", steps}};
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{:>8.2f} {:>9.2f}  all of them, each alone\n{:>8.2f} {:>9}  a whole replay\n",
               sum * 1e6, floors * 1e6, seconds * 1e6, "");
  }
  std::fflush(stdout);
}

}  // namespace mica::tool

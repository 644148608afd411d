#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/graph/plan.h"
#include "mica/ops/device_table.h"
#include "tools/mica/ops_bench.h"
#include "tools/mica/workloads.h"

namespace mica::tool {
namespace {

/// What a device does at most, per second: as its table has it, else measured here.
DeviceTable::Rates rates_of(Device device) {
  if (device_table(device).rates.bytes > 0) return device_table(device).rates;
  OpsBench measured(device, "", false);
  const double f32 = measured.product_rate("f32");
  const double tf32 = device.is_cuda() ? measured.product_rate("tf32") : f32;
  const double half = device.is_cuda() ? measured.product_rate("bf16") : f32;
  return {.bytes = measured.copy_rate(), .f32 = f32, .tf32 = tf32, .half = half, .f64 = f32 / 2};
}

double floor_of(const Plan::StepInfo& s, const DeviceTable::Rates& rates) {
  const DType dtype = s.in.empty() ? DType::f32 : s.in[0].dtype;
  const double rate = dtype == DType::f16 || dtype == DType::bf16 ? rates.half
                      : dtype == DType::f64                       ? rates.f64
                      : allow_tf32()                              ? rates.tf32
                                                                  : rates.f32;
  return std::max(s.bytes / rates.bytes, s.flops / rate);
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
  const DeviceTable::Rates rates = rates_of(device);
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
                       {"scope", s.scope},
                       {"us", us(time)},
                       {"floor_us", us(floor)},
                       {"bytes", s.bytes},
                       {"flops", s.flops}});
    } else {
      fmt::print("{:>8.2f} {:>9.2f}  {}: {}  {}  ({})\n", time * 1e6, floor * 1e6, s.op, s.kernel,
                 shapes_of(s, kMostShapes), s.scope);
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

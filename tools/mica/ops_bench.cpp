#include "tools/mica/ops_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "mica/train/progress.h"

namespace mica::tool {

OpsBench::OpsBench(Device device, std::string only, bool json)
    : device_(device), only_(std::move(only)), json_(json) {}

double OpsBench::seconds_of(const std::function<void()>& call) const {
  const double long_enough = device_.is_cuda() ? 0.01 : 0.03;
  call();
  synchronize(device_);
  int calls = 1;
  std::array<double, 7> times;
  for (size_t i = 0; i < times.size();) {
    const train::Stopwatch clock;
    for (int k = 0; k < calls; ++k) call();
    synchronize(device_);
    const double seconds = clock.seconds();
    if (seconds < long_enough) {  // too short to trust: more calls, from the start
      calls = std::max(calls + 1, static_cast<int>(calls * 1.2 * long_enough / seconds));
      i = 0;
      continue;
    }
    times[i++] = seconds / calls;
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double OpsBench::copy_rate() {
  if (copy_rate_ == 0) {
    const Tensor x = zeros({device_.is_cuda() ? 1 << 28 : 1 << 24}, {.device = device_});
    copy_rate_ = 8.0 * static_cast<double>(x.numel()) / seconds_of([&] { clone(x); });
  }
  return copy_rate_;
}

double OpsBench::product_rate(const std::string& arithmetic) {
  double& rate = product_rates_[arithmetic];
  if (rate == 0) {
    const bool tf32 = allow_tf32();
    const int64_t side = device_.is_cuda() ? 8192 : 2048;
    const TensorOptions options{.dtype = use_arithmetic(arithmetic), .device = device_};
    const Tensor a = uniform({side, side}, -1, 1, options);
    rate = 2.0 * static_cast<double>(side * side * side) / seconds_of([&] { matmul(a, a); });
    set_allow_tf32(tf32);
  }
  return rate;
}

void OpsBench::row(const std::string& name, const Work& work,
                   const std::vector<std::function<void()>>& calls) {
  if (!wants(name)) return;
  double seconds = 0;
  try {
    for (const auto& call : calls) {
      const double time = seconds_of(call);
      seconds = seconds == 0 ? time : std::min(seconds, time);
    }
  } catch (const Unsupported& e) {
    fmt::print(stderr, "{}: left out: {}\n", name, e.what());
    return;
  }
  const double by_bytes = work.bytes / copy_rate();
  const double by_flops = work.flops == 0 ? 0 : work.flops / product_rate(work.arithmetic);
  const double floor = std::max(by_bytes, by_flops);
  const bool arithmetic = work.flops > 0;
  const double value = (arithmetic ? work.flops : work.bytes) * 1e-9 / seconds;
  const char* unit = arithmetic ? "GFLOP/s" : "GB/s";
  if (json_) {
    const nlohmann::ordered_json line = {{"peer", "mica"},       {"workload", "ops"},
                                         {"variant", name},      {"value", value},
                                         {"unit", unit},         {"us", seconds * 1e6},
                                         {"floor", floor * 1e6}, {"device", to_string(device_)}};
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{:<48} {:>9.1f} µs {:>9.0f} {:<7} {:>4.0f} % of the floor's speed\n", name,
               seconds * 1e6, value, unit, 100 * floor / seconds);
  }
  std::fflush(stdout);
}

DType use_arithmetic(const std::string& name) {
  set_allow_tf32(name != "f32");  // in halves, as PyTorch does by default
  if (name == "f16") return DType::f16;
  if (name == "bf16") return DType::bf16;
  return DType::f32;
}

}  // namespace mica::tool

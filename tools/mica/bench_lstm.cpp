// `mica bench lstm`: layers of LSTM by each kernel, forward and as a training step.
#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/mica.h"
#include "mica/op/op_def.h"
#include "mica/op/settings.h"
#include "mica/train/progress.h"
#include "tools/mica/command.h"
#include "tools/mica/ops_bench.h"

namespace mica::tool {
namespace {

struct Sizes {
  int64_t steps, layers, units;
};

/// Seconds of a compiled call, the best of some groups.
double seconds_of(const std::function<void()>& call, Device device) {
  call();
  call();
  synchronize(device);
  double best = INFINITY;
  for (int group = 0; group < 5; ++group) {
    const train::Stopwatch clock;
    constexpr int kCalls = 3;
    for (int i = 0; i < kCalls; ++i) call();
    synchronize(device);
    best = std::min(best, clock.seconds() / kCalls);
  }
  return best;
}

struct Times {
  double forward;
  std::optional<double> training;  ///< of a kernel that has a gradient
};

/// Nothing where the forced kernel cannot.
std::optional<double> try_seconds(const std::function<void()>& call, Device device) {
  try {
    return seconds_of(call, device);
  } catch (const Unsupported&) {
    return std::nullopt;
  }
}

std::optional<Times> times_of(const Sizes& s, int64_t batch, DType dtype, Device device) {
  const nn::LSTM lstm({.in = s.units, .hidden = s.units, .layers = s.layers});
  lstm.to(device);
  lstm.to(dtype);
  const TensorOptions options = {.dtype = dtype, .device = device};
  const Tensor x = uniform({s.steps, batch, s.units}, -1, 1, options);
  const Tensor dy = uniform({s.steps, batch, s.units}, -1, 1, options);
  // x is an argument: what is made of tensors outside alone is computed once and kept.
  const auto forward = compile([&](const Tensor& in) {
    const NoGrad guard;
    return std::get<0>(lstm(in));
  });
  const auto train = compile([&](const Tensor& in) {
    Tensors leaves = {in.detach().set_requires_grad()};
    for (const Tensor& p : lstm.parameters()) leaves.push_back(p);
    return grad({std::get<0>(lstm(leaves[0]))}, leaves, {dy});
  });
  const auto forward_seconds = try_seconds([&] { forward(x); }, device);
  if (!forward_seconds) return std::nullopt;
  return Times{*forward_seconds, try_seconds([&] { train(x); }, device)};
}

}  // namespace

void bench_lstm(Device device, const std::vector<int64_t>& batches, bool json) {
  const bool cuda = device.is_cuda();
  const Sizes sizes = cuda ? Sizes{512, 4, 512} : Sizes{64, 1, 256};
  const std::vector<int64_t> all = !batches.empty() ? batches
                                   : cuda           ? std::vector<int64_t>{32, 64, 128, 256}
                                                    : std::vector<int64_t>{64};
  const std::vector<std::string> precisions =
      cuda ? std::vector<std::string>{"f16", "bf16", "tf32", "f32"}
           : std::vector<std::string>{"f32"};
  OpsBench rates(device, "", true);
  if (!json)
    fmt::print(
        "LSTM of {} steps, {} layers of {} on {}\n{:<6}{:>6}  {:<12}{:>12}{:>12}{:>12}{:>12}\n",
        sizes.steps, sizes.layers, sizes.units, to_string(device), "", "batch", "kernel",
        "forward ms", "floor", "training ms", "floor");
  for (const std::string& precision : precisions) {
    const DType dtype = use_arithmetic(precision);
    const double rate = rates.product_rate(precision);
    for (const int64_t batch : all) {
      const auto rows = static_cast<double>(sizes.steps * batch * sizes.layers);
      const auto units = static_cast<double>(sizes.units);
      const double flops = 2 * rows * 4 * units * 2 * units;
      for (const Kernel& kernel : find_op("recurrent").kernels[static_cast<size_t>(device.kind)]) {
        if (std::string_view(kernel.name) == "reference") continue;
        force_kernel("recurrent", kernel.name);
        force_kernel("recurrent_grad", kernel.name);
        const auto t = times_of(sizes, batch, dtype, device);
        if (!t) continue;
        const double floor = flops / rate;
        if (json) {
          nlohmann::ordered_json line = {{"workload", "lstm"},
                                         {"precision", precision},
                                         {"batch", batch},
                                         {"kernel", kernel.name},
                                         {"forward_ms", t->forward * 1e3},
                                         {"forward_floor_ms", floor * 1e3}};
          if (t->training) {
            line["training_ms"] = *t->training * 1e3;
            line["training_floor_ms"] = 3 * floor * 1e3;
          }
          fmt::print("{}\n", line.dump());
        } else {
          fmt::print("{:<6}{:>6}  {:<12}{:>12.3f}{:>12.3f}{:>12}{:>12.3f}\n", precision, batch,
                     kernel.name, t->forward * 1e3, floor * 1e3,
                     t->training ? fmt::format("{:.3f}", *t->training * 1e3) : "-",
                     3 * floor * 1e3);
        }
        std::fflush(stdout);
      }
    }
  }
  force_kernel("recurrent", "");
  force_kernel("recurrent_grad", "");
}

}  // namespace mica::tool

// What the first call of a compiled step takes by the depth of a network: capture and planning.
#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/train/progress.h"
#include "tools/mica/command.h"

namespace mica::tool {
namespace {

constexpr int64_t kWidth = 32;
constexpr int64_t kBatch = 8;

struct FirstCall {
  double seconds;
  double processor_seconds;
  size_t steps;
};

/// An MLP of so many Linear(32) and ReLU, trained by Adam: its first step.
FirstCall first_call(int64_t layers, Device device) {
  nn::Sequential net;
  for (int64_t i = 0; i < layers; ++i) {
    net->push_back(nn::Linear(kWidth, kWidth));
    net->push_back(nn::ReLU());
  }
  net.to(device);
  optim::Adam optimizer(net.parameters(), {.lr = 1e-3});
  const Tensor x = uniform({kBatch, kWidth}, -1, 1, {.device = device});
  auto step = compile([&] {
    const Tensor loss = mean(square(net(x)));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  });
  synchronize(device);
  const train::Stopwatch clock;
  const std::clock_t start = std::clock();
  step();
  synchronize(device);
  const double busy = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {clock.seconds(), busy, step.function()->plan()->steps()};
}

}  // namespace

void bench_compile(Device device, bool json) {
  constexpr int64_t kDepths[] = {200, 800, 2000};
  first_call(2, device);  // what a process does once
  if (!json)
    fmt::print(
        "the first call of a compiled training step: Linear({}) and ReLU with Adam on {}\n"
        "{:>7} {:>9} {:>9} {:>9} {:>13}\n",
        kWidth, to_string(device), "layers", "kernels", "seconds", "of CPU", "µs per layer");
  for (const int64_t layers : kDepths) {
    const FirstCall call = first_call(layers, device);
    const double per_layer = call.processor_seconds / static_cast<double>(layers) * 1e6;
    if (json) {
      const nlohmann::ordered_json line = {{"peer", "mica"},
                                           {"workload", "compile"},
                                           {"device", to_string(device)},
                                           {"layers", layers},
                                           {"kernels", call.steps},
                                           {"seconds", call.seconds},
                                           {"cpu_seconds", call.processor_seconds},
                                           {"us_per_layer", std::round(per_layer * 10) / 10}};
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("{:>7} {:>9} {:>9.3f} {:>9.3f} {:>13.1f}\n", layers, call.steps, call.seconds,
                 call.processor_seconds, per_layer);
    }
    std::fflush(stdout);
  }
}

}  // namespace mica::tool

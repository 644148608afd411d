#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/inference.h"
#include "mica/mica.h"
#include "mica/train/progress.h"
#include "tools/mica/command.h"
#include "tools/mica/network.h"
#include "tools/mica/workloads.h"

namespace mica::tool {
namespace {

constexpr int kWarmup = 5;
constexpr int kRepeats = 5;

/// Median seconds of a run between buffers that stay where they are.
double seconds_of(const inference::Binding& binding, int64_t steps, Device device) {
  for (int i = 0; i < kWarmup; ++i) binding.run();
  synchronize(device);
  std::array<double, kRepeats> times;
  for (double& time : times) {
    const train::Stopwatch clock;
    for (int64_t i = 0; i < steps; ++i) binding.run();
    synchronize(device);
    time = clock.seconds() / static_cast<double>(steps);
  }
  std::sort(times.begin(), times.end());
  return times[kRepeats / 2];
}

/// Random numbers for floating inputs, zeros for others.
Tensors inputs_of(const inference::Network& network, int64_t batch, Device device) {
  Tensors inputs;
  for (const inference::Network::Input& input : network.inputs) {
    Shape shape;
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      const inference::Size& size = input.shape[axis];
      check(axis > 0 || batch == 0 || !size.is_fixed() || size.at({}) == batch,
            "bench: input '{}' has batches of {}; its file allows no others", input.name,
            size.print(network.symbols));
      shape.push_back(size.is_fixed() ? size.at({}) : std::max<int64_t>(1, batch));
    }
    inputs.push_back(is_floating(input.dtype)
                         ? cast(normal(shape, 0, 1, {.device = device}), input.dtype)
                         : zeros(shape, {input.dtype, device}));
  }
  return inputs;
}

/// "x=1x3x64x64" with another size of the first axis.
std::string with_batch(const std::string& shape, int64_t batch) {
  const size_t begin = shape.find('=') + 1;  // 0 where there is no name
  const size_t end = std::min(shape.find('x', begin), shape.size());
  return shape.substr(0, begin) + std::to_string(batch) + shape.substr(end);
}

/// Calls f(name, rows, binding) for each batch.
template <class F>
void for_each_batch(const std::string& path, const NetworkOptions& options,
                    const std::vector<int64_t>& batches, F&& f) {
  const std::string name = std::filesystem::path(path).filename();
  std::optional<inference::Engine> engine;
  for (const int64_t batch : batches.empty() ? std::vector<int64_t>{0} : batches) {
    NetworkOptions now = options;
    if (batch > 0)
      for (std::string& shape : now.shapes) shape = with_batch(shape, batch);
    if (!engine || !options.shapes.empty()) engine = open_network(path, now);
    const Tensors inputs = inputs_of(engine->network(), batch, options.device);
    f(name, inputs[0].rank() > 0 ? inputs[0].size(0) : 1, engine->bind(inputs));
  }
}

}  // namespace

void bench_network(const std::string& path, const NetworkOptions& options,
                   const std::vector<int64_t>& batches, int64_t steps, bool json) {
  const Device device = options.device;
  for_each_batch(
      path, options, batches,
      [&](const std::string& name, int64_t rows, const inference::Binding& binding) {
        const double seconds = seconds_of(binding, steps, device);
        const double rate = static_cast<double>(rows) / seconds;
        if (json) {
          const nlohmann::ordered_json line = {{"workload", name},    {"device", to_string(device)},
                                               {"batch", rows},       {"variant", "engine"},
                                               {"ms", seconds * 1e3}, {"items_per_s", rate}};
          say("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
        } else {
          say("{}  batch {}  {:.3f} ms  {:.0f}/s\n", printable(name), rows, seconds * 1e3, rate);
        }
      });
}

void bench_network_steps(const std::string& path, const NetworkOptions& options,
                         const std::vector<int64_t>& batches, int64_t steps, bool json) {
  for_each_batch(path, options, batches,
                 [&](const std::string& name, int64_t rows, const inference::Binding& binding) {
                   bench_breakdown(fmt::format("{}, batch {}", printable(name), rows),
                                   binding.plan(), seconds_of(binding, steps, options.device),
                                   json);
                 });
}

}  // namespace mica::tool

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/mica.h"
#include "tools/mica/command.h"
#include "tools/mica/progress.h"

namespace mica::tool {
namespace {

constexpr int kWarmup = 10;
constexpr int kRepeats = 5;
constexpr int64_t kPeersBatch = 256;  // at this batch the workload's name stands alone
constexpr int kCheckedSteps = 20;

struct Options {
  std::string workload;
  std::string device = "auto";
  std::vector<int64_t> batches = {kPeersBatch};
  int64_t steps = 0;
  bool tf32 = true;
  bool autotune = true;
  bool json = false;
};

/// Median seconds per step over groups of `steps`, as the peers measure.
double seconds_per_step(const std::function<void()>& step, int64_t steps, Device device) {
  for (int i = 0; i < kWarmup; ++i) step();
  synchronize(device);
  std::array<double, kRepeats> times;
  for (double& time : times) {
    const Stopwatch clock;
    for (int64_t i = 0; i < steps; ++i) step();
    synchronize(device);
    time = clock.seconds() / static_cast<double>(steps);
  }
  std::sort(times.begin(), times.end());
  return times[kRepeats / 2];
}

/// LeNet on one batch of random images and labels; two of them start with the same numbers.
class LenetTraining {
 public:
  LenetTraining(int64_t batch, Device device)
      : model_(seeded_model(device)),
        optimizer_(model_.parameters(), {.lr = 0.02}),
        x_(to(uniform({batch, 1, 28, 28}), device)),
        y_(to(cast(mul(uniform({batch}), 10.0), DType::i64), device)),
        loss_(zeros({}, {.device = device})) {}

  void step() {
    optimizer_.zero_grad();
    const Tensor loss = cross_entropy(model_(x_), y_);
    loss.backward();
    optimizer_.step();
    copy_(loss_, loss.detach());
  }

  double loss() const { return loss_.item(); }

  /// All parameters in one row.
  std::vector<float> weights() const {
    std::vector<float> all;
    for (const Tensor& p : model_.parameters()) {
      const auto values = p.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  static nn::Sequential seeded_model(Device device) {
    manual_seed(0);
    nn::Sequential model = models::lenet();
    model.to(device);
    return model;
  }

  nn::Sequential model_;
  optim::SGD optimizer_;
  Tensor x_, y_, loss_;
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

struct Start {
  std::vector<float> weights;
  double loss = 0;
};

/// Raises unless compiled steps give the bits of eager ones. With deterministic kernels, since the
/// timed runs of others drift apart, eager ones too.
Start check_compiled(int64_t batch, Device device) {
  set_deterministic(true);
  LenetTraining eager(batch, device);
  LenetTraining compiled(batch, device);
  Start start{eager.weights()};
  auto compiled_step = compile([&] { compiled.step(); });
  for (int i = 0; i < kCheckedSteps; ++i) {
    eager.step();
    compiled_step();
    if (i == 0) start.loss = eager.loss();
  }
  set_deterministic(false);
  check(eager.weights() == compiled.weights(),
        "bench: after {} steps eager and compiled weights differ, by {}", kCheckedSteps,
        distance(eager.weights(), compiled.weights()));
  return start;
}

/// Raises unless the timed steps trained.
void check_trained(const Start& start, const LenetTraining& end, const char* variant) {
  const double moved = distance(start.weights, end.weights());
  check(moved > 0 && std::isfinite(moved), "bench: the {} weights moved by {}", variant, moved);
  check(end.loss() < start.loss, "bench: the {} loss went from {} to {}", variant, start.loss,
        end.loss());
}

void report(const Options& options, Device device, int64_t batch, const char* variant,
            double seconds, double loss) {
  const std::string name =
      batch == kPeersBatch ? options.workload : fmt::format("{}_b{}", options.workload, batch);
  const double rate = static_cast<double>(batch) / seconds;
  if (options.json) {
    const nlohmann::ordered_json line = {{"peer", "mica"},
                                         {"workload", name},
                                         {"variant", variant},
                                         {"value", std::round(rate * 1e4) / 1e4},
                                         {"unit", "images/s"},
                                         {"batch", batch},
                                         {"us_per_step", std::round(seconds * 1e8) / 1e2},
                                         {"device", to_string(device)},
                                         {"tf32", device.is_cuda() && options.tf32},
                                         {"loss", loss}};
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{:<16} {:<9} {:>10.1f} µs/step {:>12.0f} images/s  loss {:.4f}\n", name, variant,
               seconds * 1e6, rate, loss);
  }
  std::fflush(stdout);
}

void bench_lenet_train(const Options& options, int64_t batch, Device device) {
  const int64_t steps = options.steps > 0 ? options.steps : device.is_cuda() ? 200 : 20;
  const Start start = check_compiled(batch, device);
  LenetTraining eager(batch, device);
  LenetTraining compiled(batch, device);
  auto compiled_step = compile([&] { compiled.step(); });

  const double eager_seconds = seconds_per_step([&] { eager.step(); }, steps, device);
  report(options, device, batch, "eager", eager_seconds, eager.loss());
  const double compiled_seconds = seconds_per_step(compiled_step, steps, device);
  report(options, device, batch, "compiled", compiled_seconds, compiled.loss());
  check_trained(start, eager, "eager");
  check_trained(start, compiled, "compiled");
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command =
      app.add_subcommand("bench", "Time a training step, eager and compiled, or operators alone");
  auto o = std::make_shared<Options>();
  command->add_option("workload", o->workload, "What to time")
      ->required()
      ->check(CLI::IsMember({"lenet_train", "ops"}));
  command->add_option("--device", o->device, "cpu, cuda, cuda:N, or auto: CUDA where there is any")
      ->capture_default_str();
  command->add_option("--batch", o->batches, "Images per step; several may be given: 256,64")
      ->delimiter(',')
      ->check(at_least_one())
      ->capture_default_str();
  command
      ->add_option("--steps", o->steps, "Steps per timed group (else 200 on CUDA, 20 on the CPU)")
      ->check(at_least_one());
  command->add_flag("--tf32,!--no-tf32", o->tf32,
                    "Let f32 products on CUDA use TF32 (the default here, as with the peers)");
  command->add_flag("--autotune,!--no-autotune", o->autotune,
                    "Time the kernels that can compute a convolution on CUDA and take the fastest "
                    "(the default here, as with the peers)");
  command->add_flag("--json", o->json,
                    "Print one JSON object per measurement, as bench/peers does");
  command->footer(
      "Examples:\n"
      "  mica bench lenet_train --batch 256,64\n"
      "  mica bench lenet_train --device cpu --batch 64 --json\n"
      "  mica bench ops --device cpu");
  command->callback([o] {
    const Device device = choose_device(o->device);
    set_allow_tf32(o->tf32);
    set_autotune(o->autotune);
    if (o->workload == "ops") return bench_ops(device, o->json);
    for (const int64_t batch : o->batches) bench_lenet_train(*o, batch, device);
  });
}

}  // namespace mica::tool

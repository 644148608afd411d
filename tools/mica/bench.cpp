#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "mica/core/check.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/profile/profile.h"
#include "mica/train/progress.h"
#include "tools/mica/command.h"
#include "tools/mica/network.h"
#include "tools/mica/workloads.h"

namespace mica::tool {
namespace {

constexpr int kWarmup = 10;
constexpr int kRepeats = 5;
constexpr int kCheckedSteps = 20;
constexpr int kComparedSteps = 50;
constexpr int kStepsPerLaunch = 10;

struct Options {
  std::vector<std::string> workloads;
  NetworkFlags network;  // and the device
  std::vector<int64_t> batches;
  int64_t steps = 0;
  std::string only;
  bool tf32 = true;
  bool autotune = true;
  bool json = false;
  bool breakdown = false;
  std::string profile;
  bool first_call = false;
  bool compile_time = true;
};

int64_t steps_of(const Options& options, Device device) {
  return options.steps > 0 ? options.steps : device.is_cuda() ? 200 : 20;
}

/// Median seconds per step over groups of `steps`, as the peers measure.
double seconds_per_step(const std::function<void()>& step, int64_t steps, Device device) {
  for (int i = 0; i < kWarmup; ++i) step();
  synchronize(device);
  std::array<double, kRepeats> times;
  for (double& time : times) {
    const train::Stopwatch clock;
    for (int64_t i = 0; i < steps; ++i) step();
    synchronize(device);
    time = clock.seconds() / static_cast<double>(steps);
  }
  std::sort(times.begin(), times.end());
  return times[kRepeats / 2];
}

struct Start {
  std::vector<float> weights;
  double loss = 0;
};

/// Raises unless compiled steps give the bits of eager ones. With deterministic kernels, since the
/// timed runs of others drift apart, eager ones too.
Start check_compiled(const Workload& workload, int64_t batch, Device device) {
  set_deterministic(true);
  Training eager(workload, batch, device);
  Start start{eager.weights()};
  for (int i = 0; i < kCheckedSteps; ++i) {
    eager.step();
    if (i == 0) start.loss = eager.loss();
  }
  Training compiled(workload, batch, device);
  auto compiled_step = compile([&] { compiled.step(); });
  for (int i = 0; i < kCheckedSteps; ++i) compiled_step();
  set_deterministic(false);
  check(eager.weights() == compiled.weights(),
        "bench: after {} steps eager and compiled weights differ, by {}", kCheckedSteps,
        distance(eager.weights(), compiled.weights()));
  return start;
}

/// Raises unless what was timed makes the steps that eager ones make. All start again and come to
/// weights that may differ by what rounding explains, which grows as they go, with Adam more than
/// with SGD: by about as much as where eager steps come to from weights that were changed by a
/// rounding. Of runs with operands rounded to TF32 in one way or the other, no two ended up more
/// than 2.8 times as far from each other; and one value that becomes a pooling's largest instead of
/// another moves them apart by 1e-3 of their way.
void check_same_steps(const Start& start, Training& eager, Training& compiled,
                      const std::function<void()>& compiled_step, double rounding) {
  const auto weights_of = [](Training& training, double nudge, const std::function<void()>& step) {
    training.restart();
    if (nudge > 0) training.nudge(nudge);
    for (int i = 0; i < kComparedSteps; ++i) step();
    return training.weights();
  };
  const auto eager_step = [&] { eager.step(); };
  const auto nudged = weights_of(eager, rounding, eager_step);
  const auto expected = weights_of(eager, 0, eager_step);
  const auto found = weights_of(compiled, 0, compiled_step);
  const double moved = distance(start.weights, expected);
  const double limit = 5 * distance(nudged, expected) + 5e-3 * moved;
  const double apart = distance(found, expected);
  check(
      moved > 0 && apart <= limit,
      "bench: {} eager steps moved the weights by {}; compiled ones come to others, {} away where "
      "rounding explains {}",
      kComparedSteps, moved, apart, limit);
}

/// Raises unless the timed steps trained.
void check_trained(const Start& start, const Training& end, const char* variant) {
  const double moved = distance(start.weights, end.weights());
  check(moved > 0 && std::isfinite(moved), "bench: the {} weights moved by {}", variant, moved);
  check(end.loss() < start.loss, "bench: the {} loss went from {} to {}", variant, start.loss,
        end.loss());
}

/// Prints the seconds that the first call of the compiled step takes: capture, choice of kernels,
/// code generation, planning and the step itself.
void bench_first_call(const Options&, const Workload& workload, int64_t batch, Device device) {
  Training training(workload, batch, device);
  auto step = compile([&] { training.step(); });
  synchronize(device);
  const train::Stopwatch clock;
  step();
  synchronize(device);
  fmt::print("{}\n", clock.seconds());
}

struct CompileTimes {
  double cold = 0;  ///< where nothing is kept on disk
  double warm = 0;  ///< from what another process kept
};

/// Each in a process of its own.
CompileTimes compile_times(const Options& options, const Workload& workload, int64_t batch,
                           Device device) {
  namespace fs = std::filesystem;
  const fs::path cache = fs::temp_directory_path() / fmt::format("mica-bench-{}", getpid());
  const std::string command = fmt::format(
      "MICA_CACHE='{}' '{}' bench {} --batch {} --device {} {} {} --first-call", cache.string(),
      fs::read_symlink("/proc/self/exe").string(), workload.name, batch, to_string(device),
      options.tf32 ? "--tf32" : "--no-tf32", options.autotune ? "--autotune" : "--no-autotune");
  const auto seconds = [&] {
    const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
    double value = 0;
    check(child && std::fscanf(child.get(), "%lf", &value) == 1,
          "bench: this command told no time: {}", command);
    return value;
  };
  const double cold = seconds();
  const double warm = seconds();
  std::error_code ignored;
  fs::remove_all(cache, ignored);
  return {cold, warm};
}

void report(const Options& options, const Workload& workload, Device device, int64_t batch,
            const char* variant, double seconds, double loss,
            const std::optional<CompileTimes>& compile_times = {}) {
  const std::string name = workload.name_at(batch);
  const double rate = static_cast<double>(workload.items(batch)) / seconds;
  if (options.json) {
    nlohmann::ordered_json line = {{"peer", "mica"},
                                   {"workload", name},
                                   {"variant", variant},
                                   {"value", std::round(rate * 1e4) / 1e4},
                                   {"unit", workload.unit()},
                                   {"batch", batch},
                                   {"us_per_step", std::round(seconds * 1e8) / 1e2},
                                   {"device", to_string(device)},
                                   {"tf32", device.is_cuda() && options.tf32},
                                   {"loss", loss}};
    if (compile_times) {
      line["compile_cold_s"] = compile_times->cold;
      line["compile_warm_s"] = compile_times->warm;
    }
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{:<22} {:<9} {:>10.1f} µs/step {:>12.0f} {}  loss {:.4f}\n", name, variant,
               seconds * 1e6, rate, workload.unit(), loss);
    if (compile_times)
      fmt::print("{:<22} first call {:.3f} s, {:.3f} s from the disk cache\n", name,
                 compile_times->cold, compile_times->warm);
  }
  std::fflush(stdout);
}

void bench_steps(const Options& options, const Workload& workload, int64_t batch, Device device) {
  Training training(workload, batch, device);
  auto step = compile([&] { training.step(); });
  const double seconds = seconds_per_step([&] { step(); }, steps_of(options, device), device);
  bench_breakdown(workload.name_at(batch), *step.function()->plan(), seconds, options.json);
}

/// What a compiled step does, as a table, a page and a trace; several have their names in those of
/// their files.
void bench_profile(const Options& options, const Workload& workload, int64_t batch, Device device) {
  Training training(workload, batch, device);
  const auto step = compile([&] { training.step(); });
  profiler::Profiler profiler({.warmup = 2});
  profiler.start();
  for (int i = 0; i < 12; ++i) {
    step();
    if (i == 11) synchronize(device);
    profiler.step();
  }
  profiler.stop();
  std::filesystem::path path = options.profile;
  if (options.workloads.size() * std::max<size_t>(1, options.batches.size()) != 1)
    path.replace_filename(fmt::format("{}_{}{}", path.stem().string(), workload.name_at(batch),
                                      path.extension().string()));
  save_profile(profiler.profile(), path.string(), options.json);
}

void bench_training(const Options& options, const Workload& workload, int64_t batch,
                    Device device) {
  const int64_t steps = steps_of(options, device);
  const Start start = check_compiled(workload, batch, device);
  Training eager(workload, batch, device);
  const double eager_seconds = seconds_per_step([&] { eager.step(); }, steps, device);
  report(options, workload, device, batch, "eager", eager_seconds, eager.loss());
  Training compiled(workload, batch, device);
  auto compiled_step = compile([&] { compiled.step(); });
  const double compiled_seconds = seconds_per_step([&] { compiled_step(); }, steps, device);
  std::optional<CompileTimes> times;
  if (options.compile_time) times = compile_times(options, workload, batch, device);
  report(options, workload, device, batch, "compiled", compiled_seconds, compiled.loss(), times);
  if (device.is_cuda()) {
    Training repeated(workload, batch, device);
    auto step = compile([&] { repeated.step(); });
    const double seconds = seconds_per_step([&] { step.repeat(kStepsPerLaunch); },
                                            std::max<int64_t>(1, steps / kStepsPerLaunch), device);
    report(options, workload, device, batch, "compiled-10", seconds / kStepsPerLaunch,
           repeated.loss());
    check_trained(start, repeated, "repeated");
  }
  check_trained(start, eager, "eager");
  check_trained(start, compiled, "compiled");
  const double rounding = workload.dtype == DType::bf16      ? 0x1p-8
                          : device.is_cuda() && options.tf32 ? 0x1p-11
                                                             : 0x1p-23;
  check_same_steps(start, eager, compiled, [&] { compiled_step(); }, rounding);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand(
      "bench",
      "Time a training step, eager and compiled, operators alone, compiling, or a server's calls");
  auto o = std::make_shared<Options>();
  std::vector<std::string> names = {"ops", "compile", "server", "lstm", "generate"};
  for (const Workload& w : workloads()) names.emplace_back(w.name);
  command
      ->add_option("workload", o->workloads,
                   "What to time, or a network, model.onnx or net.mica; several may be given")
      ->required()
      ->check([known = CLI::IsMember(names)](const std::string& name) {
        return is_network(name) ? std::string() : known(name);
      });
  add_network_flags(*command, o->network);
  command->add_option("--batch", o->batches, "Images per step; several may be given: 256,64")
      ->delimiter(',')
      ->check(at_least_one());
  command
      ->add_option("--steps", o->steps, "Steps per timed group (else 200 on CUDA, 20 on the CPU)")
      ->check(at_least_one());
  command->add_option("--only", o->only, "Of `ops` the rows whose name contains this text");
  command->add_flag("--tf32,!--no-tf32", o->tf32,
                    "Let f32 products on CUDA use TF32 (the default here, as with the peers)");
  command->add_flag("--autotune,!--no-autotune", o->autotune,
                    "Time the kernels that can compute a convolution on CUDA and take the fastest "
                    "(the default here, as with the peers)");
  command->add_flag(
      "--breakdown", o->breakdown,
      "Time each kernel of the compiled step, or of a network, alone, beside its floor");
  command->add_option(
      "--profile", o->profile,
      "Print where the time of a compiled step goes, and time nothing else; a page of it "
      "goes to this file, a trace beside it");
  command->add_flag(
      "--first-call", o->first_call,
      "Print the seconds that the first call of the compiled step takes, and no more");
  command->add_flag("--compile-time,!--no-compile-time", o->compile_time,
                    "Also tell what --first-call prints in a process with an empty disk cache, and "
                    "in one after it (the default)");
  command->add_flag("--json", o->json,
                    "Print one JSON object per measurement, as bench/peers does");
  command->footer(
      "Examples:\n"
      "  mica bench lenet_train --batch 256,64\n"
      "  mica bench simple_cnn_train mnist_net_train --device cpu --json\n"
      "  mica bench lenet_train --breakdown\n"
      "  mica bench ops --device cpu\n"
      "  mica bench ops --only conv2d\n"
      "  mica bench compile\n"
      "  mica bench server\n"
      "  mica bench lstm --batch 32,256\n"
      "  mica bench generate --breakdown\n"
      "  mica bench model.onnx --batch 1,8,128\n"
      "  mica bench detector.onnx --shape 1x3x640x640 --batch 1,8");
  command->callback([o] {
    const Device device = choose_device(o->network.device);
    set_allow_tf32(o->tf32);
    set_autotune(o->autotune);
    for (const std::string& name : o->workloads) {
      if (name == "ops") bench_ops(device, o->only, o->json);
      if (name == "compile") bench_compile(device, o->json);
      if (name == "server") bench_server(o->json);
      if (name == "lstm") bench_lstm(device, o->batches, o->json);
      if (name == "generate") bench_generate(device, o->breakdown, o->json);
      if (is_network(name))
        (o->breakdown ? bench_network_steps : bench_network)(name, o->network.parsed(), o->batches,
                                                             steps_of(*o, device), o->json);
      for (const Workload& w : workloads()) {
        if (name != w.name) continue;
        const auto batches = o->batches.empty() ? std::vector{w.batch} : o->batches;
        for (const int64_t batch : batches)
          (o->first_call         ? bench_first_call
           : o->breakdown        ? bench_steps
           : !o->profile.empty() ? bench_profile
                                 : bench_training)(*o, w, batch, device);
      }
    }
  });
}

}  // namespace mica::tool

// `mica profile`: where a training step's time goes.
#include "mica/profile/profile.h"

#include <algorithm>
#include <filesystem>
#include <ranges>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/graph/compile.h"
#include "mica/op/settings.h"
#include "mica/profile/memory.h"
#include "tools/mica/command.h"
#include "tools/mica/workloads.h"

namespace mica::tool {
namespace {

constexpr int kWarmup = 1;  // under the profiler: graphs are recorded again then

struct Options {
  std::string workload;
  std::string device = "auto";
  int64_t batch = 0;
  int steps = 5;
  bool compiled = false;
  bool autotune = false;
  std::string precision;
  std::string by = "op";
  bool memory = false;
  uint64_t fits = 0;
  std::string report;
  std::string trace;
  bool json = false;
};

constexpr const char* kTraining = "_train";  // may be left out of a name

Workload workload_of(const Options& o) {
  const auto all = workloads();
  Workload w = *std::ranges::find_if(all, [&](const Workload& known) {
    return o.workload == known.name || o.workload + kTraining == known.name;
  });
  if (o.precision == "f16") w.dtype = DType::f16;
  if (o.precision == "bf16") w.dtype = DType::bf16;
  if (o.precision == "f32" || o.precision == "tf32") w.dtype = DType::f32;
  return w;
}

/// The largest batch that fits, by planning alone.
void show_what_fits(const Options& o) {
  const Workload w = workload_of(o);
  const Device device = Device::null();
  Training training(w, 1, device);
  const int64_t batch = profiler::largest_batch(
      [&](int64_t n) {
        Shape shape{n};
        for (const int64_t size : w.image) shape.push_back(size);
        const DType dtype = w.of_tokens() ? DType::i64 : w.dtype;
        training.step(empty(shape, {.dtype = dtype, .device = device}),
                      empty({w.items(n)}, {.dtype = DType::i64, .device = device}));
      },
      o.fits);
  if (o.json) {
    say("{{\"workload\": \"{}\", \"bytes\": {}, \"batch\": {}}}\n", w.name, o.fits, batch);
  } else {
    say("{} fits with a batch of {}: compiled, without what libraries want as workspace\n", w.name,
        batch);
  }
}

void run_profile(const Options& o) {
  if (o.fits > 0) return show_what_fits(o);
  const Workload workload = workload_of(o);
  set_autotune(o.autotune);
  if (!o.precision.empty()) set_allow_tf32(o.precision == "tf32");
  const Device device = choose_device(o.device);
  Training training(workload, o.batch > 0 ? o.batch : workload.batch, device);
  const auto compiled = compile([&] { training.step(); });
  const auto step = [&] { o.compiled ? compiled() : training.step(); };
  if (o.memory) compiled();
  for (int i = 0; i < 2; ++i) step();
  profiler::Profiler profiler({.warmup = kWarmup});
  profiler.start();
  for (int i = 0; i < kWarmup + o.steps; ++i) {
    step();
    if (i + 1 == kWarmup + o.steps) synchronize(device);
    profiler.step();
  }
  profiler.stop();
  const profiler::Profile& p = profiler.profile();
  if (o.json) {
    say("{}\n", profiler::to_json(p));
  } else {
    say("{}", profiler::table(p, profiler::by_of(o.by)));
    for (const std::string& line : profiler::advice(p)) say("\n{}\n", line);
    if (o.memory) say("\n{}", profiler::table(profiler::memory_of(*compiled.function()->plan())));
  }
  if (!o.report.empty()) profiler::write_report(p, o.report);
  if (!o.trace.empty()) profiler::export_chrome_trace(p, o.trace);
}

}  // namespace

void save_profile(const profiler::Profile& profile, const std::string& path, bool json) {
  const std::filesystem::path trace = std::filesystem::path(path).replace_extension(".trace.json");
  profiler::write_report(profile, path);
  profiler::export_chrome_trace(profile, trace.string());
  const std::string table = profiler::table(profile);
  json ? note("{}", table) : say("{}", table);
  note("the profile is in {}, its trace in {}\n", printable(path), printable(trace.string()));
}

void add_profile(CLI::App& app) {
  auto* command = app.add_subcommand("profile", "Show where the time of a training step goes");
  auto o = std::make_shared<Options>();
  std::vector<std::string> names;
  for (const std::string name : std::views::transform(workloads(), &Workload::name)) {
    names.push_back(name);
    names.push_back(name.substr(0, name.rfind(kTraining)));
  }
  command->add_option("workload", o->workload, "What to run")
      ->required()
      ->check(CLI::IsMember(names));
  command->add_option("--device", o->device, "cpu, cuda, cuda:N, or auto: CUDA where there is any")
      ->capture_default_str();
  command->add_option("--batch", o->batch, "Images per step")->check(at_least_one());
  command->add_option("--precision", o->precision, "Of the network; else as it is usually trained")
      ->check(CLI::IsMember({"f32", "tf32", "bf16", "f16"}));
  command->add_option("--steps", o->steps, "How many are recorded, after two that are not")
      ->capture_default_str()
      ->check(at_least_one());
  command->add_flag("--compile", o->compiled, "Of the compiled step");
  command->add_flag("--autotune", o->autotune, "Time kernels and take the fastest, as bench does");
  command->add_option("--by", o->by, "Rows of the table")
      ->capture_default_str()
      ->check(CLI::IsMember({"op", "kernel", "module", "shape", "gpu"}));
  command->add_flag("--memory", o->memory, "Also show what the compiled step needs of memory");
  command
      ->add_option("--fits", o->fits,
                   "Run nothing, but tell the largest batch whose step fits into so much memory")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--report", o->report, "Also write a page for a browser to this file");
  command->add_option("--trace", o->trace, "Also write a trace for chrome://tracing or Perfetto");
  command->add_flag("--json", o->json, "Print everything as one JSON object");
  command->footer(
      "Examples:\n"
      "  mica profile lenet_train\n"
      "  mica profile lenet --compile --by module --report lenet.html\n"
      "  mica profile resnet50 --batch 256 --precision bf16 --compile --report resnet50.html\n"
      "  mica profile lenet_train --memory\n"
      "  mica profile resnet50_train --fits 80GiB");
  command->callback([o] { run_profile(*o); });
}

}  // namespace mica::tool

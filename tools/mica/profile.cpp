// `mica profile`: where a training step's time goes.
#include "mica/profile/profile.h"

#include "mica/graph/compile.h"
#include "mica/op/settings.h"
#include "tools/mica/command.h"
#include "tools/mica/workloads.h"

namespace mica::tool {
namespace {

struct Options {
  std::string workload;
  std::string device = "auto";
  int64_t batch = 0;
  int steps = 5;
  bool compiled = false;
  std::string by = "op";
  std::string report;
  std::string trace;
  bool json = false;
};

void run_profile(const Options& o) {
  const auto all = workloads();
  const Workload& workload =
      *std::ranges::find_if(all, [&](const Workload& w) { return o.workload == w.name; });
  const Device device = choose_device(o.device);
  Training training(workload, o.batch > 0 ? o.batch : workload.batch, device);
  const auto compiled = compile([&] { training.step(); });
  const auto step = [&] { o.compiled ? compiled() : training.step(); };
  for (int i = 0; i < 2; ++i) step();
  profiler::Profiler profiler;
  profiler.start();
  for (int i = 0; i < o.steps; ++i) {
    step();
    if (i + 1 == o.steps) synchronize(device);
    profiler.step();
  }
  profiler.stop();
  const profiler::Profile& p = profiler.profile();
  if (o.json) {
    say("{}\n", profiler::to_json(p));
  } else {
    say("{}", profiler::table(p, profiler::by_of(o.by)));
    for (const std::string& line : profiler::advice(p)) say("\n{}\n", line);
    if (device.is_cuda())
      note("times are those of the host, which launches kernels: the GPU's own are not in them\n");
  }
  if (!o.report.empty()) profiler::write_report(p, o.report);
  if (!o.trace.empty()) profiler::export_chrome_trace(p, o.trace);
}

}  // namespace

void add_profile(CLI::App& app) {
  auto* command = app.add_subcommand("profile", "Show where the time of a training step goes");
  auto o = std::make_shared<Options>();
  std::vector<std::string> names;
  for (const Workload& w : workloads()) names.emplace_back(w.name);
  command->add_option("workload", o->workload, "What to run")
      ->required()
      ->check(CLI::IsMember(names));
  command->add_option("--device", o->device, "cpu, cuda, cuda:N, or auto: CUDA where there is any")
      ->capture_default_str();
  command->add_option("--batch", o->batch, "Images per step")->check(at_least_one());
  command->add_option("--steps", o->steps, "How many are recorded, after two that are not")
      ->capture_default_str()
      ->check(at_least_one());
  command->add_flag("--compile", o->compiled, "Of the compiled step");
  command->add_option("--by", o->by, "Rows of the table")
      ->capture_default_str()
      ->check(CLI::IsMember({"op", "kernel", "module", "shape"}));
  command->add_option("--report", o->report, "Also write a page for a browser to this file");
  command->add_option("--trace", o->trace, "Also write a trace for chrome://tracing or Perfetto");
  command->add_flag("--json", o->json, "Print everything as one JSON object");
  command->footer(
      "Examples:\n"
      "  mica profile lenet_train\n"
      "  mica profile lenet_train --compile --by module --report lenet.html");
  command->callback([o] { run_profile(*o); });
}

}  // namespace mica::tool

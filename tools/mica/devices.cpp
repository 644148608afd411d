#include <fmt/core.h>
#include <link.h>

#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/op/settings.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/runtime.h"
#include "tools/mica/command.h"

namespace mica::tool {
namespace {

/// The files that mica and what computes for it were loaded from.
std::vector<std::string> libraries() {
  std::vector<std::string> paths;
  const auto note = [](dl_phdr_info* info, size_t, void* list) {
    const std::string path = info->dlpi_name;
    const std::string name = path.substr(path.rfind('/') + 1);
    for (const char* part : {"libmica", "libdnnl", "libgomp", "libcud", "libcublas", "libnvrtc"})
      if (name.starts_with(part)) static_cast<std::vector<std::string>*>(list)->push_back(path);
    return 0;
  };
  dl_iterate_phdr(note, &paths);
  return paths;
}

void print_json() {
  auto list = nlohmann::ordered_json::array();
  const DeviceProperties cpu = runtime(Device::cpu()).properties(0);
  list.push_back({{"device", "cpu"},
                  {"name", cpu.name},
                  {"memory_bytes", cpu.memory},
                  {"threads", num_threads()}});
  nlohmann::ordered_json out = {{"devices", list}};
  if (cuda_available()) {
    DeviceRuntime& cuda = runtime(DeviceKind::cuda);
    for (int i = 0; i < cuda.device_count(); ++i) {
      const DeviceProperties p = cuda.properties(i);
      out["devices"].push_back({{"device", to_string(Device::cuda(i))},
                                {"name", p.name},
                                {"memory_bytes", p.memory},
                                {"free_bytes", p.free_memory},
                                {"multiprocessors", p.multiprocessors},
                                {"compute_capability", p.compute_capability},
                                {"driver_version", p.driver_version},
                                {"runtime_version", p.runtime_version}});
    }
    out["built_for"] = cuda_library().architectures;
  } else {
    out["cuda_unavailable"] = cuda_unavailable_reason();
  }
  out["libraries"] = libraries();
  say("{}\n", out.dump());
}

double gib(size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

/// "13.0" for 13000.
std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void print_table() {
  const DeviceProperties cpu = runtime(Device::cpu()).properties(0);
  say("cpu     {}, {} threads, {:.1f} GiB\n", cpu.name, num_threads(), gib(cpu.memory));
  const auto print_libraries = [] {
    for (const std::string& path : libraries()) say("library {}\n", printable(path));
  };
  if (!cuda_available()) {
    say("cuda    none: {}\n", cuda_unavailable_reason());
    print_libraries();
    return;
  }
  DeviceRuntime& cuda = runtime(DeviceKind::cuda);
  for (int i = 0; i < cuda.device_count(); ++i) {
    const DeviceProperties p = cuda.properties(i);
    say("{:<7} {}, {} multiprocessors, {:.1f} GiB ({:.1f} free), compute capability {}.{}, driver "
        "for CUDA {}\n",
        to_string(Device::cuda(i)), p.name, p.multiprocessors, gib(p.memory), gib(p.free_memory),
        p.compute_capability / 10, p.compute_capability % 10, cuda_version(p.driver_version));
  }
  say("        built with CUDA {} for {}\n", cuda_version(cuda.properties(0).runtime_version),
      cuda_library().architectures);
  print_libraries();
}

}  // namespace

void add_devices(CLI::App& app) {
  auto* command = app.add_subcommand("devices", "List the devices, or say why there is no CUDA");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON object");
  command->footer("Examples:\n  mica devices\n  mica devices --json");
  command->callback([json] { *json ? print_json() : print_table(); });
}

}  // namespace mica::tool

#include <cstdio>

#include "mica/core/check.h"
#include "mica/core/error.h"
#include "mica/runtime/runtime.h"
#include "tools/mica/command.h"

namespace mica::tool {

Device choose_device(const std::string& name) {
  if (name == "auto") return cuda_available() ? Device::cuda() : Device::cpu();
  const Device device = device_from_name(name);
  check<DeviceError>(!device.is_null(), "the null device computes nothing; choose cpu or cuda");
  const int count = runtime(device).device_count();
  check<DeviceError>(device.index < count, "{}: there is no such device, only {}", device, count);
  return device;
}

}  // namespace mica::tool

int main(int argc, char** argv) {
  CLI::App app("Trains, times and inspects with mica.", "mica");
  app.require_subcommand(1);
  app.footer("Examples:\n  mica train lenet\n  mica devices\n\n`mica <command> --help` says more.");
  mica::tool::add_train(app);
  mica::tool::add_eval(app);
  mica::tool::add_predict(app);
  mica::tool::add_bench(app);
  mica::tool::add_devices(app);
  mica::tool::add_ops(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "mica: %s\n", e.what());
    return 1;
  }
  return 0;
}
